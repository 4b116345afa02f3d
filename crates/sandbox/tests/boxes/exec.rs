//! Commands that are run in a box that is up.

use crate::common::{Scene, can_make_boxes, end, wait_until};
use sandbox::SandboxError;
use sandbox::process::{Identity, tree};

#[test]
fn a_command_can_be_run_in_a_box_that_is_up() {
    if !can_make_boxes("exec") {
        return;
    }
    let scene = Scene::new();
    let launched = scene
        .launch(&scene.spec(&["sh", "-c", "touch /dev/shm/mark; echo up; sleep 1000"]))
        .expect("it starts");
    wait_until("it is up", || scene.log().contains("up"));
    let run = |words: &[&str]| scene.exec(launched.holder, words);
    let script = "ls /dev/shm; id -u; cat /proc/1/comm; grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status; echo oops >&2; exit 4";
    let output = run(&["sh", "-c", script]).expect("it runs");
    assert_eq!(output.status.code(), Some(4));
    let nothing = "0000000000000000";
    let expected = format!(
        "mark\n{}\ninfinijup-box\nCapPrm:\t{nothing}\nCapEff:\t{nothing}\nCapBnd:\t{nothing}\nCapAmb:\t{nothing}\nNoNewPrivs:\t1\n",
        scene.user.uid
    );
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout).as_ref(), output.stderr.as_slice()),
        (expected.as_str(), &b"oops\n"[..])
    );
    let output = run(&["sh", "-c", "kill -15 $$"]).expect("it runs");
    assert_eq!(output.status.code(), Some(143));
    let error = run(&["no-such-command"]).expect_err("there is no such command");
    assert!(
        matches!(error, SandboxError::Enter { .. }) && error.to_string().contains("no-such-command"),
        "{error}"
    );

    let output = run(&["head", "-c", "20000000", "/dev/zero"]).expect("it runs");
    assert_eq!(output.stdout.len(), sandbox::OUTPUT_LIMIT, "the rest is dropped");

    // What it leaves running is not waited for, belongs to the box, and ends with it.
    let output = run(&["sh", "-c", "sleep 1001 & echo started"]).expect("it runs");
    assert_eq!(output.stdout, b"started\n");
    // The shell has forked, and may not have become `sleep` yet.
    wait_until("both sleep in the box", || {
        let processes = tree(launched.holder.pid).expect("a tree");
        processes.iter().filter(|process| process.comm == "sleep").count() == 2
    });
    end(&launched);
    let gone = run(&["true"]).expect_err("the box is gone");
    assert!(matches!(gone, SandboxError::Enter { .. }), "{gone}");
}

#[test]
fn nobody_is_run_in_the_box_of_somebody_who_has_the_number_now() {
    if !can_make_boxes("exec in another's box") {
        return;
    }
    let scene = Scene::new();
    let launched = scene.launch(&scene.spec(&["sleep", "1000"])).expect("it starts");
    let another = Identity { start_time: launched.holder.start_time + 1, ..launched.holder };
    scene.exec(another, &["true"]).expect_err("that is another process");
    end(&launched);
}

#[test]
fn file_systems_in_memory_travel_from_one_box_to_the_next() {
    if !can_make_boxes("file systems in memory") {
        return;
    }
    let scene = Scene::new();
    let fill = "cd /dev/shm; echo words >file; ln -s file link; mkdir -m 700 dir; truncate -s 100M dir/holes; \
                echo mine >/run/user/$(id -u)/file; touch /run/infinijup-box/apart; echo up; sleep 1000";
    let first = scene.launch(&scene.spec(&["sh", "-c", fill])).expect("it starts");
    wait_until("it is up", || scene.log().contains("up"));
    let archive = scene.path("archive");
    let file = std::fs::File::create(&archive).expect("a file");
    sandbox::pack_tmpfs(&scene.program, first.holder, file).expect("it is packed");
    let length = std::fs::metadata(&archive).expect("it is there").len();
    assert!(length < 1 << 20, "{length} bytes: holes are not written");
    end(&first);

    std::fs::remove_file(scene.path("box/apart")).expect("it is the box's own");
    let second = scene.launch(&scene.empty()).expect("it starts");
    let file = std::fs::File::open(&archive).expect("a file");
    sandbox::unpack_tmpfs(&scene.program, second.holder, file).expect("it is unpacked");
    let look = "cd /dev/shm; cat link; readlink link; stat -c %a dir; stat -c %s dir/holes; \
                cat /run/user/$(id -u)/file; ls /run/infinijup-box";
    let output = scene.exec(second.holder, &["sh", "-c", look]).expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "words\nfile\n700\n104857600\nmine\nlog\n");
    end(&second);
}

#[test]
fn file_systems_in_memory_that_nobody_used_need_no_archive() {
    if !can_make_boxes("file systems in memory") {
        return;
    }
    let scene = Scene::new();
    let archive = scene.path("archive");
    let packed = |holder| {
        let file = std::fs::File::create(&archive).expect("a file");
        sandbox::pack_tmpfs(&scene.program, holder, file).expect("it is packed");
        std::fs::metadata(&archive).expect("it is there").len()
    };
    let launched = scene.launch(&scene.spec(&["sleep", "1000"])).expect("it starts");
    assert_eq!(packed(launched.holder), 0);
    let file = std::fs::File::open(&archive).expect("a file");
    sandbox::unpack_tmpfs(&scene.program, launched.holder, file).expect("there is nothing to do");
    // Whatever is not as it was made is noticed, wherever it is.
    for (change, back) in [
        ("touch /dev/shm/x", "rm /dev/shm/x"),
        ("ln -s / /run/lock/x", "rm /run/lock/x"),
        ("mkdir /run/user/$(id -u)/x", "rmdir /run/user/$(id -u)/x"),
        ("chmod 755 /run/user/$(id -u)", "chmod 700 /run/user/$(id -u)"),
        ("ln -sfn /tmp /run/shm", "ln -sfn /dev/shm /run/shm"),
    ] {
        for (command, expected) in [(change, false), (back, true)] {
            scene.exec(launched.holder, &["sh", "-c", command]).expect("it runs");
            assert_eq!(packed(launched.holder) == 0, expected, "{command}");
        }
    }
    end(&launched);
}

#[test]
fn processes_are_counted_from_where_they_should_be() {
    if !can_make_boxes("numbers of processes") {
        return;
    }
    let scene = Scene::new();
    let launched = scene.launch(&scene.empty()).expect("it starts");
    // The last one is more than the machine counts to: a box of another machine, or one whose kernel lets boxes count further, came to it.
    for (last, expected) in [(5000, 5001..5010), (i32::MAX, 301..310)] {
        sandbox::count_from(&scene.program, launched.holder, last).expect("it is set");
        let output = scene.exec(launched.holder, &["sh", "-c", "echo $$"]).expect("it runs");
        let number: i32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
        assert!(expected.contains(&number), "{number}");
    }
    end(&launched);
}

//! The client with real kernels: ipykernel out of the Python of the end-to-end tests.
//!
//! `scripts/test-python.sh` makes it; without it the tests say that they were skipped.
#![forbid(unsafe_code)]

#[cfg(test)]
mod running;

use std::collections::BTreeMap;

use jupyter_bridge::client::{Bridge, Cells, Doing, Ended, How, Output, Stream};
use serde_json::json;

use running::{LIMIT, Running, python};

/// A kernel, or a reason to stop here.
macro_rules! kernel {
    () => {
        match python() {
            Some(python) => Running::start(&python),
            None => return,
        }
    };
}

#[test]
fn cells_make_a_kernel_busy_and_questions_of_ours_do_not() {
    let running = kernel!();
    let bridge = Bridge::start().unwrap();
    let (kernel, heard) = running.listen_from_cell_two(&bridge);
    let before = heard.last().unwrap().runs;

    let answers = kernel.evaluate(BTreeMap::from([("a".to_owned(), "1/0".to_owned())]), LIMIT).unwrap();
    assert!(answers["a"].as_ref().unwrap_err().contains("ZeroDivisionError"));
    assert_eq!(heard.last().unwrap().runs, before);

    running.execute(
        "\n# to wait\nimport time\nwhile not __import__('os').path.exists(stop): time.sleep(0.01)\n",
    );
    let busy = heard.until(LIMIT, |status| status.doing == Doing::Busy && status.number == Some(3));
    assert_eq!((busy.number, busy.cell.as_deref()), (Some(3), Some("# to wait")));
    // In the midst of a cell nothing is asked of it, and it is not kept waiting for that.
    assert_eq!(kernel.evaluate(BTreeMap::new(), LIMIT).unwrap_err().code(), "IJ-J031");

    // One who comes in the midst of it learns by the shell's silence that it is busy.
    let (_second, late) = running.listen(&bridge);
    late.until(LIMIT, |status| status.doing == Doing::Busy);
    running.release();
    heard.until(LIMIT, |status| status.doing == Doing::Idle && status.runs == before + 1);
    late.until(LIMIT, |status| status.doing == Doing::Idle);
}

#[test]
fn variables_are_told_and_nothing_is_left_behind() {
    let running = kernel!();
    let bridge = Bridge::start().unwrap();
    let (kernel, heard) = running.listen_from_cell_two(&bridge);
    running.execute_and_wait(
        &heard,
        "import sys\nx = 42\ntext = 'a' * 900\nitems = [1, 2, 3]\n_hidden = 1\nclass Evil:\n    shape = property(lambda self: 1/0)\n    \
         def __sizeof__(self): raise ValueError\nevil = Evil()\nbefore = set(globals()) | {'before'}",
    );
    let found = kernel.variables(LIMIT).unwrap().unwrap();
    let names: Vec<_> = found.iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(names, ["Evil", "before", "evil", "items", "stop", "text", "x"]);
    let get = |name: &str| found.iter().find(|variable| variable.name == name).unwrap();
    assert_eq!((get("x").kind.as_str(), get("x").summary.as_str()), ("int", "42"));
    assert_eq!(get("items").summary, "3 items");
    assert!(get("text").size.unwrap() > 900 && get("text").summary.len() <= 200);
    assert_eq!((get("evil").kind.as_str(), get("evil").size), ("Evil", None));

    let trace = "sorted(set(globals()) - before - {'_' + str(n) for n in range(9)} - {'_', '__', '___', '_i', '_ii', '_iii'} \
                 - {'_i' + str(n) for n in range(9)})";
    let code = format!("assert not {trace}, {trace}\nassert len(In) == 5, In\nfine = 1");
    running.execute_and_wait(&heard, &code);
    let found = kernel.variables(LIMIT).unwrap().unwrap();
    assert!(found.iter().any(|variable| variable.name == "fine"), "{found:?}");
}

#[test]
fn requests_of_a_kernel_come_and_answers_reach_it() {
    let running = kernel!();
    let bridge = Bridge::start().unwrap();
    let (kernel, heard) = running.listen_from_cell_two(&bridge);
    running.execute_and_wait(
        &heard,
        "k = get_ipython().kernel\ngot = []\nk.control_handlers['infinijup_reply'] = lambda s, i, m: got.append(m['content'])\n\
         def ask(content): k.session.send(k.iopub_socket, 'infinijup_request', content, parent=k.get_parent())",
    );
    running.execute("import time\nask({'id': '1', 'do': 'status'})\nwhile not got: time.sleep(0.01)");
    assert_eq!(heard.request(LIMIT), json!({ "id": "1", "do": "status" }));
    kernel.send_control("infinijup_reply", json!({ "id": "1", "ok": true })).unwrap();
    // The cell waits for the answer, on the control channel.
    heard.until(LIMIT, |status| status.doing == Doing::Idle && status.number == Some(4));
}

#[test]
fn a_kernel_that_went_and_came_back_is_found_again() {
    let mut running = kernel!();
    let bridge = Bridge::start().unwrap();
    let (kernel, heard) = running.listen_from_cell_two(&bridge);
    running.end();
    heard.until(LIMIT, |status| status.doing == Doing::Unknown);
    assert_eq!(kernel.variables(LIMIT).unwrap_err().code(), "IJ-J030");
    running.start_again();
    heard.until(LIMIT, |status| status.doing == Doing::Idle);
    assert!(kernel.variables(LIMIT).unwrap().is_some());
    // Told that it is another one: connected anew, and found idle again.
    kernel.renew(Some(("infinijup_reply", json!({ "id": "*" })))).unwrap();
    heard.until(LIMIT, |status| status.doing == Doing::Unknown);
    heard.until(LIMIT, |status| status.doing == Doing::Idle);
}

#[test]
fn all_that_comes_of_a_cell_is_heard() {
    let running = kernel!();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Each connection is new: the first word must not be lost by any of them.
        for number in 0..5 {
            let mut cells = Cells::connect(running.file(), LIMIT).await.unwrap();
            let mut heard = Vec::new();
            let ended =
                cells.run(format!("print('n', {number})\n'value'"), |output| heard.push(output)).await;
            assert_eq!(ended.unwrap().how, How::Well);
            assert_eq!(heard[..2], [Output::Begun, Output::Text(Stream::Out, format!("n {number}\n"))]);
            assert!(
                matches!(&heard[2..], [Output::Value(parts)] if parts[0].content == "'value'"),
                "{heard:?}"
            );
        }
        let mut cells = Cells::connect(running.file(), LIMIT).await.unwrap();
        let mut heard = Vec::new();
        let ended = cells.run("1/0".to_owned(), |output| heard.push(output)).await.unwrap();
        assert!(matches!(ended, Ended { how: How::Raised, number: Some(_) }), "{ended:?}");
        assert!(matches!(&heard[1], Output::Raised { name, .. } if name == "ZeroDivisionError"), "{heard:?}");

        let interrupt = cells.interrupter();
        let ended = cells.run("print('on', flush=True)\nwhile True: pass".to_owned(), |output| {
            if matches!(output, Output::Text(..)) {
                interrupt();
            }
        });
        assert_eq!(ended.await.unwrap().how, How::Raised);
        // One who comes while a cell of somebody else's runs learns that, and has left nothing behind.
        running.execute("while not __import__('os').path.exists(stop): pass");
        let mut probe = Cells::connect(running.file(), std::time::Duration::from_secs(1)).await;
        while probe.is_ok() {
            probe = Cells::connect(running.file(), std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(probe.err().unwrap().code(), "IJ-J031");
        running.release();
        cells.run("1".to_owned(), |_| ()).await.unwrap();
    });
}

#[test]
fn a_kernel_that_ends_in_a_cell_is_not_waited_for() {
    let running = kernel!();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut cells = Cells::connect(running.file(), LIMIT).await.unwrap();
        let ended = cells.run("import os; os._exit(1)".to_owned(), |_| ()).await;
        assert_eq!(ended.unwrap_err().code(), "IJ-J030");
        let nobody = Cells::connect(running.file(), std::time::Duration::from_millis(300)).await;
        assert_eq!(nobody.err().unwrap().code(), "IJ-J030");
    });
}

use std::os::unix::net::UnixStream;
use std::thread;

use super::*;

fn opening() -> Vec<u8> {
    let mut bytes = vec![0; GREETING];
    bytes[0] = 0xff;
    bytes[9..11].copy_from_slice(&[0x7f, 3]);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes.extend([4, 6]);
    bytes.extend(b"\x05READY");
    bytes
}

/// A connection that is being carried.
struct Carried {
    client: UnixStream,
    kernel: UnixStream,
    visit: Arc<Visit>,
}

impl Carried {
    /// A client's on one channel, who has said this much.
    fn new(clients: &Clients, channel: Channel, words: &[u8]) -> Self {
        let visit = Arc::new(clients.visit(channel));
        let (mut client, from) = UnixStream::pair().expect("a pair");
        let (to, kernel) = UnixStream::pair().expect("a pair");
        let own = Arc::clone(&visit);
        thread::spawn(move || own.there(&mut &from, &mut &to));
        client.write_all(words).expect("it is taken");
        Self { client, kernel, visit }
    }

    fn heard(&mut self, length: usize) -> Vec<u8> {
        let mut heard = vec![0; length];
        self.kernel.read_exact(&mut heard).expect("as much as that");
        heard
    }

    fn is_silent(&mut self, time: Duration) -> bool {
        self.kernel.set_read_timeout(Some(time)).expect("a limit");
        let silent = self.kernel.read(&mut [0]).is_err();
        self.kernel.set_read_timeout(None).expect("no limit");
        silent
    }
}

#[test]
fn a_client_asks_when_it_can_hear() {
    let clients = Clients::default();
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    let mut control = Carried::new(&clients, Channel::at(3), &[8; 30]);
    assert_eq!(shell.heard(SIGNATURE), [ZMTP; SIGNATURE]);
    assert_eq!(control.heard(30), [8; 30]);
    let mut iopub = Carried::new(&clients, Channel::Iopub, &opening()[..70]);
    iopub.heard(70);
    // The kernel does not live yet, so no time is running; and nobody has subscribed.
    assert!(shell.is_silent(LIMIT * 3 / 2));
    iopub.client.write_all(&[&opening()[70..], &SUBSCRIPTION].concat()).expect("it is taken");
    assert_eq!(iopub.heard(5), [&opening()[70..], &SUBSCRIPTION].concat());
    assert_eq!(shell.heard(20), [ZMTP; 20]);
    assert!(iopub.is_silent(ITS_TURN * 3), "it has subscribed itself");
}

#[test]
fn after_an_exchange_everybody_is_waited_for_but_whoever_has_left() {
    let clients = Clients::default();
    let hearing: Vec<Carried> = (0..3).map(|_| Carried::new(&clients, Channel::Iopub, &opening())).collect();
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    assert_eq!(shell.heard(30), [ZMTP; 30]);
    let [first, second, third] = <[Carried; 3]>::try_from(hearing).ok().expect("three");
    third.client.shutdown(std::net::Shutdown::Both).expect("it leaves");
    while !third.visit.has_left.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    for one in [&first, &second, &third, &shell] {
        one.visit.back(&mut io::empty(), &mut io::sink()).expect("its end");
    }
    drop((first, second, third, shell));
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    let _one = Carried::new(&clients, Channel::Iopub, &opening());
    shell.heard(SIGNATURE);
    assert!(shell.is_silent(ITS_TURN * 10), "the other one is not back");
    let _two = Carried::new(&clients, Channel::Iopub, &opening());
    assert_eq!(shell.heard(20), [ZMTP; 20]);
}

#[test]
fn one_that_comes_twice_does_not_stand_for_two() {
    let clients = Clients::default();
    let hearing: Vec<Carried> = (0..2).map(|_| Carried::new(&clients, Channel::Iopub, &opening())).collect();
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    assert_eq!(shell.heard(30), [ZMTP; 30]);
    for one in hearing.iter().chain([&shell]) {
        one.visit.back(&mut io::empty(), &mut io::sink()).expect("its end");
    }
    drop((hearing, shell));
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    shell.heard(SIGNATURE);
    let mut hasty = Carried::new(&clients, Channel::Iopub, &opening());
    hasty.heard(opening().len() + SUBSCRIPTION.len());
    hasty.client.shutdown(std::net::Shutdown::Both).expect("it leaves");
    while !hasty.visit.has_left.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    let _again = Carried::new(&clients, Channel::Iopub, &opening());
    assert!(shell.is_silent(ITS_TURN * 20), "the other one is not back");
    let _other = Carried::new(&clients, Channel::Iopub, &opening());
    assert_eq!(shell.heard(20), [ZMTP; 20]);
}

#[test]
fn one_that_hangs_up_while_it_is_held_is_not_waited_for() {
    let clients = Clients::default();
    let mut hasty = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    hasty.heard(SIGNATURE);
    shell.heard(SIGNATURE);
    let _iopub = Carried::new(&clients, Channel::Iopub, &opening());
    assert!(shell.is_silent(FIRST_MOMENTS + GLANCE * 3), "two ask and one hears");
    hasty.client.shutdown(std::net::Shutdown::Write).expect("it leaves");
    // The kernel has not said anything yet, so nobody would be let go because of the time.
    assert_eq!(shell.heard(20), [ZMTP; 20]);
    assert_eq!(hasty.kernel.read(&mut [0]).expect("its end"), 0, "the kernel must not learn its name");
}

#[test]
fn a_client_that_says_nothing_is_subscribed() {
    let clients = Clients::default();
    let mut shell = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    let mut iopub = Carried::new(&clients, Channel::Iopub, &opening());
    assert_eq!(iopub.heard(75), [&opening()[..], &SUBSCRIPTION].concat());
    assert_eq!(shell.heard(30), [ZMTP; 30]);
    iopub.client.write_all(&[5; 4]).expect("it is taken");
    assert_eq!(iopub.heard(4), [5; 4]);
}

#[test]
fn nothing_is_said_for_a_client_that_is_not_understood() {
    let mut other = opening();
    other[12..17].copy_from_slice(b"CURVE");
    let mut iopub = Carried::new(&Clients::default(), Channel::Iopub, &other);
    iopub.heard(other.len());
    assert!(iopub.is_silent(ITS_TURN * 5));
}

#[test]
fn whoever_never_hears_is_held_for_a_second_and_holds_nobody_else() {
    let clients = Clients::default();
    let mut alone = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    alone.heard(SIGNATURE);
    let begun = Instant::now();
    let (mut kernel, mut said) = UnixStream::pair().expect("a pair");
    let visit = Arc::clone(&alone.visit);
    thread::spawn(move || visit.back(&mut kernel, &mut io::sink()));
    said.write_all(b"x").expect("it is heard");
    assert_eq!(alone.heard(20), [ZMTP; 20]);
    assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
    let _iopub = Carried::new(&clients, Channel::Iopub, &opening());
    let mut other = Carried::new(&clients, Channel::Shell, &[ZMTP; 30]);
    assert_eq!(other.heard(30), [ZMTP; 30]);
}

#[test]
fn whoever_speaks_something_else_is_not_held() {
    let mut shell = Carried::new(&Clients::default(), Channel::Shell, b"hello, is there anybody?");
    assert_eq!(shell.heard(24), b"hello, is there anybody?");
}

#[test]
fn a_kernel_that_is_gone_holds_nobody() {
    let mut shell = Carried::new(&Clients::default(), Channel::Shell, &[ZMTP; 30]);
    shell.heard(SIGNATURE);
    shell.visit.back(&mut io::empty(), &mut io::sink()).expect("its end");
    assert_eq!(shell.heard(20), [ZMTP; 20]);
}

#[test]
fn an_opening_is_known_wherever_it_is_cut() {
    let mut long = opening()[..GREETING].to_vec();
    long.extend([6, 0, 0, 0, 0, 0, 0, 1, 0]);
    long.extend([1; 256]);
    for whole in [opening(), long] {
        for cut in 0..whole.len() {
            let (first, second) = whole.split_at(cut);
            let mut seen = Opening::default();
            seen.take(first);
            assert!(!seen.is_whole(), "{cut}");
            seen.take(second);
            assert!(seen.is_whole() && !seen.is_followed(), "{cut}");
            seen.take(&[0]);
            assert!(seen.is_followed(), "{cut}");
        }
    }
    let mut endless = Opening::default();
    endless.take(&[&opening()[..GREETING], &[0xff; 9]].concat());
    endless.take(&[0; 999]);
    assert!(!endless.is_whole() && !endless.is_followed());
}

//! What kernels and policies ask for goes the way of every request.

use std::sync::mpsc::{Sender, channel};

use infinijupd::Limits;
use lifecycle::{Asked, Did, Due, Errand, SessionId};
use serde_json::{Value, json};

use crate::client::{Daemon, eventually};

struct Scene {
    daemon: Daemon,
    asked: Sender<Asked>,
    due: Sender<Errand>,
    session: SessionId,
}

impl Scene {
    async fn new() -> Self {
        let ((asked, asks), (due, dues)) = (channel(), channel());
        let change = |double: &mut crate::double::Double| {
            double.asked = Some(asks).into();
            double.due = Some(dues).into();
        };
        let daemon = Daemon::start_with(change, Limits::default()).await;
        let session = SessionId::try_from(daemon.double.add("hers").id).unwrap();
        Self { daemon, asked, due, session }
    }

    /// What a kernel is told, or the id of what was not to be answered.
    async fn ask(&self, what: &str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let before = self.daemon.double.answers.lock().unwrap().len();
        let (session, id, what) = (self.session.clone(), "7".to_owned(), what.to_owned());
        self.asked.send(Asked { session, id, what, arguments }).unwrap();
        eventually(|| self.daemon.double.answers.lock().unwrap().len() > before).await;
        self.daemon.double.answers.lock().unwrap().last().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_answered_with_what_a_client_would_be() {
    let scene = Scene::new().await;
    let status = scene.ask("status", json!({})).await;
    assert_eq!((&status["id"], &status["ok"]), (&json!("7"), &json!(true)));
    assert_eq!(status["result"]["name"], "hers");
    let taken = scene.ask("snapshot", json!({ "message": "mine" })).await;
    assert!(taken["result"]["commit"].is_string(), "{taken}");
    let log = scene.ask("log", json!({ "limit": 3 })).await;
    assert_eq!(log["result"]["commits"].as_array().unwrap().len(), 1);
    // It ran as a job like any other.
    let jobs = scene.daemon.client().get("/v1/jobs").await.json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kernel_says_wrongly_is_refused_in_the_same_words() {
    let scene = Scene::new().await;
    for (what, arguments, code) in [
        ("snapshot", json!({ "message": "fail" }), "TEST"),
        ("snapshot", json!({ "massage": 1 }), "IJ-D017"),
        ("snapshot", json!({ "tag": "../x" }), "IJ-D010"),
        ("restore", json!({ "to": "a\u{7}" }), "IJ-D010"),
        ("format_the_disk", json!({}), "IJ-D010"),
        ("tag", json!({ "name": "x" }), "IJ-D010"),
    ] {
        let answer = scene.ask(what, arguments).await;
        assert_eq!(
            (&answer["ok"], &answer["error"]["code"]),
            (&json!(false), &json!(code)),
            "{what}: {answer}"
        );
        assert!(answer["error"]["message"].is_string());
    }
    // Who asked is gone.
    assert_eq!(scene.ask("restore", json!({ "to": "x" })).await, "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_is_done_and_told() {
    let scene = Scene::new().await;
    scene.due.send(Errand { session: scene.session.clone(), due: Due::Suspend }).unwrap();
    eventually(|| !scene.daemon.double.dids.lock().unwrap().is_empty()).await;
    let nobody = SessionId::try_from("0".repeat(12)).unwrap();
    scene.due.send(Errand { session: nobody, due: Due::Suspend }).unwrap();
    eventually(|| scene.daemon.double.dids.lock().unwrap().len() == 2).await;
    assert_eq!(*scene.daemon.double.dids.lock().unwrap(), [Did::Done, Did::Failed]);
    // Nobody asked for it, so the snapshot is one that retention may let go.
    assert_eq!(*scene.daemon.double.suspended.lock().unwrap(), [Some("idle".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_meets_something_else_is_tried_another_time() {
    let scene = Scene::new().await;
    for name in ["busy", "asleep"] {
        let session = SessionId::try_from(scene.daemon.double.add(name).id).unwrap();
        scene.due.send(Errand { session, due: Due::Suspend }).unwrap();
    }
    eventually(|| scene.daemon.double.dids.lock().unwrap().len() == 2).await;
    assert_eq!(*scene.daemon.double.dids.lock().unwrap(), [Did::Busy, Did::Busy]);
}

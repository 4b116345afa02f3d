//! Jobs: answered at once or at their end, and remembered.

use api::{Job, JobResult, JobState};
use infinijupd::Limits;
use serde_json::json;

use crate::client::{Daemon, eventually};

#[tokio::test]
async fn a_job_is_answered_at_once_and_found_again() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("mine");
    let answer = client.snapshot("mine", "hold", "").await;
    assert_eq!(answer.status, 202);
    let job: Job = serde_json::from_value(answer.json()).unwrap();
    assert_eq!(job.state, JobState::Running);

    daemon.double.release();
    eventually(|| daemon.app.jobs_running() == 0).await;
    let job: Job = serde_json::from_value(client.get(&format!("/v1/jobs/{}", job.id)).await.json()).unwrap();
    assert_eq!(job.state, JobState::Done);
    assert!(matches!(job.result, Some(JobResult::Snapshot(taken)) if taken.commit == "c0ffee"));
    let steps: Vec<_> = job.steps.iter().map(|step| (step.name.as_str(), step.micros)).collect();
    assert_eq!(steps, [("freeze", Some(2_000)), ("ingest", Some(40_000))]);
    assert!(job.ended.is_some() && job.error.is_none());
}

#[tokio::test]
async fn waiting_gives_the_end_or_the_error_itself() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("mine");
    let done = client.snapshot("mine", "", "?wait=true").await;
    assert_eq!((done.status, done.json()["state"].as_str()), (200, Some("done")));

    let failed = client.snapshot("mine", "fail", "?wait=true").await;
    assert_eq!(failed.status, 409);
    let expected = json!({
        "code": "TEST", "message": "it is in use", "causes": ["a cause"], "hint": "a hint", "exit": 14,
    });
    assert_eq!(failed.json(), expected);
    // The same, in the list.
    let jobs = client.get("/v1/jobs").await.json();
    assert_eq!((&jobs["jobs"][1]["state"], &jobs["jobs"][1]["error"]), (&json!("failed"), &expected));
}

#[tokio::test]
async fn files_in_the_way_are_listed() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("mine");
    let path = "/v1/sessions/mine/rollback?wait=true";
    let refused = client.post(path, &json!({ "to": "overwrites" })).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "IJ-L030"));
    let files = refused.json()["files"].clone();
    assert_eq!((&files[0], &files[99]), (&json!("/home/ada/0"), &json!("/home/ada/99")));
    assert_eq!(files.as_array().map(Vec::len), Some(100), "not all that there may be");
    // The same in the list of jobs; and `force` is the way on.
    assert_eq!(client.get("/v1/jobs").await.json()["jobs"][0]["error"]["files"], files);
    assert_eq!(client.post(path, &json!({ "to": "overwrites", "force": true })).await.status, 200);
}

#[tokio::test]
async fn a_job_that_panics_is_a_failed_job() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("mine");
    let failed = client.snapshot("mine", "panic", "?wait=true").await;
    assert_eq!((failed.status, failed.code().as_str()), (500, "IJ-D099"));
    assert_eq!(client.snapshot("mine", "", "?wait=true").await.status, 200);
}

#[tokio::test]
async fn a_new_session_is_named_by_its_job() {
    let daemon = Daemon::start().await;
    let request = json!({ "name": "fresh", "start": { "type": "kernel" }, "cwd": "/" });
    let job = daemon.client().post("/v1/sessions?wait=true", &request).await.json();
    assert_eq!((&job["result"]["type"], &job["result"]["name"]), (&json!("session"), &json!("fresh")));
    assert_eq!(job["session"], job["result"]["id"]);
}

#[tokio::test]
async fn only_so_many_are_remembered_and_only_so_many_run() {
    let limits = Limits { running_jobs: 2, ended_jobs: 3, ..Limits::default() };
    let daemon = Daemon::start_with(|_| (), limits).await;
    let client = daemon.client();
    daemon.double.add("mine");
    for _ in 0..5 {
        assert_eq!(client.snapshot("mine", "", "?wait=true").await.status, 200);
    }
    eventually(|| daemon.app.jobs_running() == 0).await;
    assert_eq!(client.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 3);

    for _ in 0..2 {
        assert_eq!(client.snapshot("mine", "hold", "").await.status, 202);
    }
    let refused = client.snapshot("mine", "hold", "").await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "IJ-D021"));
    daemon.double.release();
}

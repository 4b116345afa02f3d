//! Snapshots one by one, their names, and their end.

use serde_json::json;

use crate::client::Daemon;

#[tokio::test]
async fn a_notebook_is_given_back_as_it_is() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    assert_eq!(client.get("/v1/commits/main~1").await.json()["id"], "main~1");
    assert_eq!(&*client.get("/v1/commits/c0ffee/notebook").await.body, b"notebook of c0ffee");
    assert_eq!(client.get("/v1/commits/c0ffee/variables").await.json(), json!({ "variables": [] }));
    for evil in ["/v1/commits/%00", "/v1/commits/a%0Ab/notebook", "/v1/commits/%ff"] {
        assert_eq!(client.get(evil).await.status, 400, "{evil}");
    }
}

#[tokio::test]
async fn names_of_tags_may_have_slashes_and_spaces() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let tagged = client.post("/v1/tags", &json!({ "name": "paper/fig 3", "commit": "main" })).await;
    assert_eq!((tagged.status, &tagged.json()["tags"]), (200, &json!(["paper/fig 3"])));
    assert_eq!(client.send("DELETE", "/v1/tags/paper/fig%203", b"").await.status, 200);
    assert_eq!(client.send("DELETE", "/v1/tags/paper%2Ffig%203", b"").await.status, 200);
    assert_eq!(client.send("DELETE", "/v1/tags/other", b"").await.status, 404);
    assert_eq!(client.post("/v1/tags", &json!({ "name": "x", "commit": "" })).await.status, 400);
}

#[tokio::test]
async fn snapshots_are_forgotten_and_freed_by_jobs() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let job = client.post("/v1/forget?wait=true", &json!({ "commits": ["a", "b~2"] })).await.json();
    assert_eq!(job["kind"], "forget");
    assert_eq!(job["result"], json!({ "type": "forget", "forgotten": ["a", "b~2"], "kept": [] }));
    let job = client.post("/v1/gc?wait=true", &json!({})).await.json();
    assert_eq!(job["result"], json!({ "type": "gc", "freed_bytes": 1, "commits": 2, "objects": 3 }));
    let many: Vec<_> = (0..10_001).map(|number| number.to_string()).collect();
    assert_eq!(client.post("/v1/forget", &json!({ "commits": many })).await.status, 400);
    assert_eq!(client.post("/v1/forget", &json!({ "commits": ["a\nb"] })).await.status, 400);
}

#[tokio::test]
async fn one_that_is_left_out_is_no_failure() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("work");
    let wanted = json!({ "message": "skip", "reason": "after-cell", "within_ms": 100 });
    let answer = client.post("/v1/sessions/work/snapshot?wait=true", &wanted).await;
    let skipped = json!({ "type": "skipped", "why": "too_long", "head": "c0ffee", "expected_us": 900_000 });
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("done")));
    assert_eq!(answer.json()["result"], skipped);
    let given_up = client.post("/v1/sessions/work/give-up", &json!({})).await;
    assert_eq!((given_up.status, given_up.json()), (200, json!({ "given_up": true })));
}

#[tokio::test]
async fn a_body_is_large_only_where_it_brings_a_document() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("work");
    let notebook = "x".repeat(12 << 20);
    let snapshot = json!({ "notebook": notebook, "reason": "after-cell" });
    assert_eq!(client.post("/v1/sessions/work/snapshot?wait=true", &snapshot).await.status, 200);
    let suspend = json!({ "notebook": notebook });
    assert_eq!(client.post("/v1/sessions/work/suspend?wait=true", &suspend).await.status, 200);
    let refused = client.post("/v1/sessions/work/exec", &json!({ "argv": [notebook] })).await;
    assert_eq!(refused.status, 413);
}

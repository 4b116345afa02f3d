//! Requests that are crafted, broken or too large: each has a clean answer, and the daemon goes on.

use serde_json::{Value, json};

use crate::client::Daemon;

#[tokio::test]
async fn crafted_ids_are_refused() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let long = "x".repeat(4096);
    let ids = [
        "..",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "%2e%2e%2f",
        "a%00b",
        "%00",
        "a%0ab",
        "%ff%fe",
        "a%20b",
        "~root",
        "%2fproc%2fself%2froot",
        "-rf",
        ".hidden",
        "a%e2%80%aeb",
        &long,
    ];
    for id in ids {
        for (method, path) in [
            ("GET", "/v1/sessions/{}"),
            ("DELETE", "/v1/sessions/{}"),
            ("GET", "/v1/sessions/{}/log"),
            ("POST", "/v1/sessions/{}/suspend"),
            ("GET", "/v1/jobs/{}"),
            ("GET", "/v1/jobs/{}/events"),
        ] {
            let answer = client.send(method, &path.replace("{}", id), b"").await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "IJ-D010"), "{method} {path} {id}");
        }
    }
    // An id with real slashes is another path.
    for path in
        ["/v1/sessions/../../etc/passwd", "/v1/sessions/a/b/c", "/v1/jobs//", "/", "//", "/v2/sessions"]
    {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "IJ-D013"), "{path}");
    }
    let answer = client.send("PUT", "/v1/sessions", b"{}").await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "IJ-D013"));
    assert_eq!(client.get("/v1/version").await.status, 200);
}

#[tokio::test]
async fn names_are_refused_and_taken_by_the_one_rule() {
    let table = include_str!("../../../../tests/fixtures/names/table.json");
    let table: Vec<Value> = serde_json::from_str(table).unwrap();
    let daemon = Daemon::start().await;
    daemon.double.add("mine");
    let client = daemon.client();
    for row in table {
        let times = row["times"].as_u64().unwrap_or(1);
        let name = row["name"].as_str().unwrap().repeat(usize::try_from(times).unwrap());
        for (path, body, is_good) in [
            (
                "/v1/sessions?wait=true",
                json!({ "start": { "type": "command", "argv": ["sh"] }, "cwd": "/", "name": name }),
                &row["session"],
            ),
            ("/v1/sessions/mine/snapshot?wait=true", json!({ "tag": name }), &row["tag"]),
            ("/v1/tags", json!({ "commit": "main", "name": name }), &row["tag"]),
        ] {
            let answer = client.post(path, &body).await;
            let is_refused = answer.status == 400 && answer.code() == "IJ-D010";
            assert_eq!(!is_refused, is_good.as_bool().unwrap(), "{path} {name:?}: {}", answer.status);
        }
    }
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("mine");
    let start = |change: Value| {
        let mut body = json!({ "start": { "type": "command", "argv": ["sh"] }, "cwd": "/" });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        ("/v1/sessions", body)
    };
    let refused = [
        ("/v1/sessions", json!({})),
        ("/v1/sessions", json!([1, 2])),
        start(json!({ "cwd": "relative" })),
        start(json!({ "cwd": { "hex": "2f00" } })),
        start(json!({ "cwd": format!("/{}", "x".repeat(4096)) })),
        start(json!({ "workspace": "../.." })),
        start(json!({ "name": "../../etc" })),
        start(json!({ "name": "x".repeat(4096) })),
        start(json!({ "start": { "type": "command", "argv": [] } })),
        start(json!({ "start": { "type": "command", "argv": ["a\0b"] } })),
        start(json!({ "start": { "type": "kernel", "spec": "../python3" } })),
        start(json!({ "sidecars": [[]] })),
        start(json!({ "env": [{ "name": "A=B", "value": "" }] })),
        start(json!({ "env": [{ "name": "A", "value": "\0" }] })),
        start(json!({ "memory_limit": -1 })),
        ("/v1/sessions/mine/rollback", json!({})),
        ("/v1/sessions/mine/rollback", json!({ "to": "" })),
        ("/v1/sessions/mine/rollback", json!({ "to": "a\0b" })),
        ("/v1/sessions/mine/snapshot", json!({ "tag": "a/../b" })),
        ("/v1/sessions/mine/snapshot", json!({ "quiesce": [] })),
        ("/v1/sessions/mine/branch", json!({ "count": 0 })),
        ("/v1/sessions/mine/branch", json!({ "count": 100_000 })),
        ("/v1/sessions/mine/branch", json!({ "name": "a b" })),
        ("/v1/sessions/mine/exec", json!({ "argv": [""] })),
        ("/v1/attach", json!({ "pid": 1 })),
        ("/v1/attach", json!({ "pid": -1 })),
        ("/v1/checkpoint", json!({ "pid": 77, "directory": "here" })),
        ("/v1/restore", json!({ "directory": "a\0" })),
    ];
    for (path, body) in refused {
        let answer = client.post(path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "IJ-D010"), "{path} {body}");
    }
    // What a newer client says and this daemon does not know has a code of its own, and names the field.
    for ((path, body), field) in [
        (start(json!({ "uid": 0 })), "uid"),
        (("/v1/sessions/mine/snapshot", json!({ "label": "a", "novelty": 1 })), "novelty"),
    ] {
        let answer = client.post(path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "IJ-D017"), "{path} {body}");
        assert_eq!(answer.json()["field"], field);
    }
    // So does one that cannot be as it is.
    for (path, body, field) in [
        ("/v1/sessions/mine/snapshot", json!({ "tag": "a..b" }), json!("tag")),
        ("/v1/sessions/mine/rollback", json!({ "to": "" }), json!("to")),
        ("/v1/attach", json!({ "pid": 1 }), json!("pid")),
        ("/v1/sessions/mine/rollback", json!({}), Value::Null),
    ] {
        assert_eq!(client.post(path, &body).await.json()["field"], field, "{path} {body}");
    }
    for (path, text) in [("/v1/attach", "{"), ("/v1/attach", "\u{0}"), ("/v1/sessions/mine/stop", "[[[[")] {
        let answer = client.send("POST", path, text.as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "IJ-D010"), "{path} {text}");
    }
    for path in ["/v1/diff", "/v1/diff?a=x", "/v1/diff?a=x&b=%00", "/v1/sessions/mine/log?from=x"] {
        assert_eq!(client.get(path).await.code(), "IJ-D010", "{path}");
    }
    assert_eq!(client.get("/v1/jobs").await.json(), json!({ "jobs": [] }), "nothing was begun");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let daemon = Daemon::start().await;
    let body = vec![b' '; (8 << 20) + 1];
    let answer = daemon.client().send("POST", "/v1/attach", &body).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "IJ-D014"));
}

#[tokio::test]
async fn bytes_that_are_no_text_come_through() {
    let daemon = Daemon::start().await;
    daemon.double.add("mine");
    let body = json!({ "argv": ["cat", { "hex": "636166e9" }] });
    let job = daemon.client().post("/v1/sessions/mine/exec?wait=true", &body).await.json();
    assert_eq!(job["result"]["stdout"], json!({ "hex": "636166e9" }));
    assert_eq!(job["result"]["stderr"], json!({ "hex": "ff" }));
}

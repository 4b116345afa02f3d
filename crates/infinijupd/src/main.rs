//! The daemon `infinijupd`: reads its settings, takes its places, and serves until it is told to stop.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use api::EncryptionLine;
use infinijupd::listener::PeerListener;
use infinijupd::settings::{Request, Settings};
use infinijupd::{App, Failure, Home, Limits};
use infinijupd::{beside, encryption, error::DaemonError, instance, logging, notify};
use lifecycle::{Config, Engine, LookBeyond, Recovery};
use machine::GpuConfig;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    if let Some(outcome) = beside::asked(std::env::args_os().skip(1)) {
        return outcome;
    }
    match Request::read(std::env::args_os().skip(1), api::places::variable) {
        Ok(Request::Print(text)) => say(&text),
        Ok(Request::Serve(mut settings)) => {
            end(logging::set_up().map_err(Failure::from).and_then(|()| run(&mut settings)))
        }
        Ok(Request::Encrypt(mut settings)) => {
            let ended = take_places(&settings).and_then(|_instance| encryption::encrypt(&mut settings));
            if let Err(failure) = &ended {
                encryption::say(&EncryptionLine::Failed { error: failure.body.clone() });
            }
            end(ended)
        }
        Err(error) => end(Err(error.into())),
    }
}

/// Writes to stdout; that nobody reads it is no failure.
fn say(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Says why it failed, where people and the service manager look.
fn end(outcome: Result<(), Failure>) -> ExitCode {
    let Err(Failure { body, .. }) = outcome else { return ExitCode::SUCCESS };
    let mut text = format!("infinijupd: {body}\n");
    if let Some(hint) = &body.hint {
        text.push_str(&format!("infinijupd: {hint}\n"));
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
    notify::failed(&body.to_string());
    ExitCode::from(body.exit)
}

/// Makes the directories ours alone, and takes the right to work there.
fn take_places(settings: &Settings) -> Result<instance::Instance, Failure> {
    let places = &settings.places;
    // Nothing of ours is anybody else's business, whoever started us.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    for directory in [&places.state, &places.run] {
        api::places::make_private(directory).map_err(DaemonError::from)?;
    }
    Ok(instance::Instance::take(&places.state)?)
}

/// What the store lacks of a history is read from the remote that has it, with the credentials that we find here.
fn beyond(cache: u64) -> LookBeyond {
    LookBeyond(Arc::new(move |store| remote::ReadThrough::attach(store, cache)))
}

fn run(settings: &mut Settings) -> Result<(), Failure> {
    if settings.detach {
        // Whoever leads a group already has left it.
        let _ = rustix::process::setsid();
    }
    let _instance = take_places(settings)?;
    encryption::settle(settings)?;
    let places = &settings.places;

    let config = Config {
        key_file: settings.key_file.clone(),
        store_budget: settings.store_budget,
        reserve_bytes: settings.reserve,
        memory_limit: settings.memory_limit,
        pids_limit: settings.pids_limit,
        beyond: Some(beyond(settings.remote_cache)),
        ..Config::new(&places.state, &places.run)
    };
    let engines = machine::Settings {
        program: settings.box_program.clone(),
        criu: settings.criu.clone(),
        copy_ahead: settings.copy_ahead,
        standby: settings.standby,
        gpu: GpuConfig {
            program: settings.gpu_program.clone(),
            cuda_checkpoint: settings.cuda_checkpoint.clone(),
            lock_limit: settings.gpu_lock_limit,
            step_limit: settings.gpu_step_limit,
        },
        ..machine::Settings::injecting_by(beside::injector())
    };
    let following = Arc::clone(&engines.following);
    let (engine, recovery) = machine::open(config, engines)?;
    tell(&recovery);
    if let Some(error) = engine.unable() {
        let body = Failure::from(error).body;
        tracing::warn!(code = body.code, "sessions can be listed, but nothing can be done with them: {body}");
    }

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("infinijupd")
        .build()
        .map_err(DaemonError::io("start the threads of", &places.socket))?;
    let standbys = engine.clone();
    let served = runtime.block_on(serve(settings, engine, following));
    // Sessions live on without us; what only stands by does not.
    standbys.end_standbys();
    // What still runs is a command in somebody's session, which goes on without us.
    runtime.shutdown_background();
    Ok(served?)
}

async fn serve(
    settings: &Settings,
    engine: Engine,
    following: Arc<machine::Courses>,
) -> Result<(), DaemonError> {
    let places = &settings.places;
    let listener = match PeerListener::passed()? {
        Some(listener) => listener,
        None => PeerListener::bind(&places.socket)?,
    };
    let home = Home {
        store_encrypted: engine.is_encrypted(),
        remote: Some(settings.remote.clone()).filter(|policy| !policy.is_idle()),
        ..Home::new(places.clone(), listener.is_passed(), settings.idle_end)
    };
    let app = App::new(Arc::new(engine), Limits::default(), home);
    app.count_following(following);
    if let Some(redis) = settings.redis.clone() {
        app.publish_to(redis).map_err(DaemonError::io("start the thread for Redis of", &places.socket))?;
    }
    let heed = |kind| signal(kind).map_err(DaemonError::io("heed signals for", &places.socket));
    let (mut terminate, mut interrupt) = (heed(SignalKind::terminate())?, heed(SignalKind::interrupt())?);
    // A terminal that closes is no reason to end; there is nothing to read again either.
    let _hangup = heed(SignalKind::hangup())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    };
    tokio::spawn(notify::watch(app.clone()));
    notify::ready();
    tracing::info!(socket = %places.socket.display(), version = env!("CARGO_PKG_VERSION"), "ready");
    app.serve(listener, stop).await;
    tracing::info!("stopped; sessions live on");
    Ok(())
}

/// What was found at the start.
fn tell(recovery: &Recovery) {
    for session in &recovery.adopted {
        tracing::info!(session, "looked after again");
    }
    for what in &recovery.finished {
        tracing::warn!(what, "an operation had been cut short");
    }
    for session in &recovery.ended {
        tracing::warn!(session, "ended while nobody looked");
    }
    for trouble in &recovery.troubles {
        tracing::error!(trouble, "could not be put right; the next start tries again");
    }
}

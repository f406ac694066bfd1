//! What the process says to whoever started it: its exit code, whether it takes an empty value for none, and what kubectl
//! completes.

// All of this file is a test; clippy only knows the functions that are marked as one.
#![allow(clippy::expect_used, clippy::panic)]

use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use first_consumer_e2e::control_plane::{build_controller, programs, workspace};

/// The binary, with these words.
async fn command(words: &str) -> Command {
    let mut command = Command::new(build_controller(false).await.expect("a binary"));
    command.args(words.split(' '));
    command
}

/// Exit code and stderr.
fn end(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[tokio::test]
async fn a_port_that_is_taken_is_not_the_clusters_fault() {
    let folder = std::env::temp_dir().join(format!("first-consumer-exit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let config = folder.join("config");
    let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}]}"#;
    std::fs::write(&config, text).expect("written");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let run = async |config: &str| end(&mut command(&format!("run --listen {address} --kubeconfig {config}")).await);
    let (code, words) = run(&config.to_string_lossy()).await;
    assert!(
        code == Some(2) && words.contains("cannot listen on"),
        "{code:?}: {words}"
    );
    let (code, words) = run(&folder.join("none").to_string_lossy()).await;
    assert!(code == Some(3) && words.contains("kubeconfig"), "{code:?}: {words}");
    std::fs::remove_dir_all(folder).expect("removed");
}

#[tokio::test]
async fn output_that_is_lost_is_a_failure_unless_nobody_wants_it() {
    let mut version = command("version").await;
    let full = File::options().write(true).open("/dev/full").expect("a full device");
    version.stdin(Stdio::null()).stdout(full).stderr(Stdio::null());
    assert_eq!(version.status().expect("it runs").code(), Some(2));

    let mut version = command("version").await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    version.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    assert_eq!(version.status().expect("it runs").code(), Some(0));

    let mut explain = command("explain vm/db --kubeconfig /nowhere").await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    explain.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    assert_eq!(explain.status().expect("it runs").code(), Some(3));
}

#[tokio::test]
async fn an_empty_variable_is_none() {
    let end = async |variable: &str, value: &str| {
        end(command("run --log-level= --kubeconfig /nowhere")
            .await
            .env(variable, value))
    };
    for variable in ["FIRST_CONSUMER_CREATE_RATE", "FIRST_CONSUMER_LEADER_ELECT"] {
        let (code, words) = end(variable, "").await;
        assert!(
            code == Some(3) && words.contains("kubeconfig"),
            "{variable}: {code:?}: {words}"
        );
        assert_eq!(end(variable, "odd").await.0, Some(2), "{variable}");
    }
}

#[tokio::test]
async fn check_knows_no_namespace_but_the_controllers() {
    let (code, words) = end(&mut command("check -n prod").await);
    assert!(code == Some(2) && words.contains("'-n'"), "{code:?}: {words}");
}

/// With the README's program, real kubectl.
#[tokio::test]
async fn kubectl_completes_the_plugin() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("the README");
    let (_, rest) = readme.split_once("```bash\n#!").expect("a program");
    let (program, _) = rest.split_once("```").expect("its end");
    let folder = std::env::temp_dir().join(format!("first-consumer-completion-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let completer = folder.join("kubectl_complete-first_consumer");
    std::fs::write(&completer, format!("#!{program}")).expect("written");
    std::fs::set_permissions(&completer, Permissions::from_mode(0o755)).expect("a program");
    let binary = build_controller(false).await.expect("a binary");
    symlink(&binary, folder.join("first-consumer")).expect("a link");
    symlink(&binary, folder.join("kubectl-first_consumer")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let kubectl = programs().await.expect("kubectl").control_plane;
    let complete = |words: &[&str]| {
        let mut complete = Command::new(&kubectl);
        complete.args(["kubectl", "__complete", "first-consumer"]).args(words);
        complete
            .env("PATH", format!("{}:{path}", folder.display()))
            .env("KUBECONFIG", "/dev/null");
        let output = complete.output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(complete(&["exp"]), "explain\n:4\n");
    assert_eq!(complete(&["explain", "--all"]), "--all-namespaces\n:4\n");
    assert_eq!(complete(&["completion", "fi"]), "fish\n:4\n");
    std::fs::remove_dir_all(folder).expect("removed");
}

//! What does not come from the text of the file: variables, flags, the directory, the file as bytes.

use super::super::*;
use super::{check, lines, load_with};

#[test]
fn variables_in_strings_are_never_shown() {
    let secret = [("TOKEN", "hunter2"), ("N", "3"), ("HOST", "hunter2.example"), ("ROOT", "/hunter2")];
    let text = "[server]\nworkers = \"${env:N}\"\n[[route]]\nhost = \"${env:HOST}\"\nexact = \"/\"\n\
                respond = { body = \"a ${env:TOKEN}\", headers = { \"X-Key\" = \"${env:TOKEN}\" } }";
    let loaded = load_with(text, &secret).unwrap();
    assert_eq!(loaded.config.server.workers, Some(3));
    assert_eq!(loaded.config.routes[0].hosts, ["hunter2.example"]);
    let Handler::Respond(respond) = &loaded.config.routes[0].handler else { panic!("respond") };
    assert_eq!(respond.body, b"a hunter2");
    let shown = explain::effective(&loaded);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("route.1.respond.body = \"a ${env:TOKEN}\""), "{shown}");

    for line in [
        "[server]\nworkers = \"${env:TOKEN}\"",
        "[server]\nlisten = \"${env:TOKEN}\"",
        "[server]\nlisten = [\"${env:TOKEN}\"]",
        "[server]\nadmin = \"${env:TOKEN}\"",
        "[limits]\nhead_size = \"${env:TOKEN}\"\nidle_timeout = \"${env:N}\"",
        "[log]\naccess = \"${env:TOKEN}\"",
        "[[route]]\npath = \"${env:TOKEN}\"\nhost = \"${env:ROOT}\"\nstatic = { root = \"${env:ROOT}\" }",
        "[[route]]\npath = \"/\"\nmethods = [\"${env:TOKEN}\"]\nrespond = { body_file = \"${env:ROOT}\" }",
        "[[route]]\npath = \"/\"\nredirect = { to = \"${env:TOKEN}\", status = \"${env:TOKEN}\" }",
    ] {
        let found = lines(load_with(line, &secret));
        assert!(!found.is_empty() && !found.iter().any(|line| line.contains("hunter2")), "{found:?}");
    }
    check(
        "[server]\nadmin = \"${env:UNSET}\"",
        &[
            "@2:9: server.admin: expected the environment variable UNSET to be set, or a default as in \"${env:UNSET:-default}\"",
        ],
    );
    check(
        "[server]\nadmin = \"${UNSET}\"",
        &[
            "@2:9: server.admin: expected \"${env:NAME}\" or \"${env:NAME:-default}\" (a dollar sign is \"$$\"), did you mean \"${env:UNSET}\"?",
        ],
    );
    check("[server]\nadmin = \"${env:UNSET:-off}\"", &[]);
}

#[test]
fn variables_override_the_file_and_flags_override_both() {
    let file = "[server]\nworkers = 9\nadmin = \"nonsense\"\n[log]\naccess = \"combined\"";
    let environment = [
        ("SCALWS_SERVER__WORKERS", "2"),
        ("SCALWS_SERVER__ADMIN", "off"),
        ("SCALWS_SERVER__LISTEN", "[::]:8080, 0.0.0.0:9090"),
        ("SCALWS_SERVER__DRAIN__TIMEOUT", "3s"),
        ("SCALWS_LIMITS__BODY_SIZE", "1MiB"),
        ("SCALWS_LIMITS__HEAD_SIZE", "2048"),
        ("SCALWS_LOG__ACCESS__FILE", "/a.log"),
        ("SCALWS_SERVICE_HOST", "10.0.0.1"),
        ("SCALWS_PORT", "tcp://10.0.0.1:80"),
        ("SCALWS_CONFIG", "x"),
    ];
    let found = load_with(file, &environment).unwrap();
    let config = &found.config;
    assert_eq!((config.server.workers, config.server.admin), (Some(2), None));
    assert_eq!(config.server.listen.len(), 2);
    assert_eq!(config.server.drain_timeout.as_secs(), 3);
    assert_eq!((config.limits.body_bytes_max, config.limits.head_bytes_max), (1 << 20, 2048));
    assert_eq!(config.log.access, checked::AccessFormat::Combined);
    assert_eq!(config.log.access_file, Some("/a.log".into()));

    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    let flags = Flags { workers: Some("auto".into()), listen: vec!["127.0.0.1:1".into()], admin: None };
    let source = Source { environment, flags, ..Source::default() };
    let found = load_text(&source, "scalws.toml", file).unwrap();
    assert_eq!(found.config.server.workers, None);
    let origin = |key| &found.settings.iter().find(|setting| setting.key == key).unwrap().origin;
    assert_eq!(origin("server.workers"), &Origin::Flag("--workers"));
    assert_eq!(origin("server.listen"), &Origin::Flag("--listen"));
    assert_eq!(origin("server.admin"), &Origin::Variable("SCALWS_SERVER__ADMIN".into()));
    assert_eq!(origin("log.access.format"), &Origin::File { line: 5, column: 10 });
    assert_eq!(origin("server.drain.delay"), &Origin::Default);
}

#[test]
fn faulty_overrides_name_their_variable_or_flag() {
    let variable = |name: &str, value: &str, expected: &str| {
        assert_eq!(lines(load_with("", &[(name, value)])), [format!("{name}: {expected}")]);
    };
    variable("SCALWS_SERVER__WORKERS", "x", "expected \"auto\" or an integer from 1 to 1024, found \"x\"");
    variable(
        "SCALWS_SERVER__WORKRES",
        "2",
        "expected the name of a key, such as SCALWS_SERVER__WORKERS, did you mean SCALWS_SERVER__WORKERS?",
    );
    variable("SCALWS_ROUTE__PATH", "/", "expected the name of a key, such as SCALWS_SERVER__WORKERS");
    variable(
        "SCALWS_TLS__LISTEN",
        "[::]:1",
        "tls.certificate: expected a file, or \"self-signed\", found none",
    );
    variable(
        "SCALWS_TLS__CERTIFICATES",
        "/k",
        "expected the name of a key, such as SCALWS_SERVER__WORKERS, did you mean SCALWS_TLS__CERTIFICATE?",
    );
    variable(
        "SCALWS_LIMITS__IDLE_TIMEOUT",
        "10",
        "expected a duration with a unit (ms, s, m or h), found \"10\", did you mean \"10s\"?",
    );
    let flags = Flags { listen: vec!["8080".into()], ..Flags::default() };
    let problems = load(&Source { flags, ..Source::default() }).unwrap_err();
    assert_eq!(problems.exit_code(), 2);
    assert_eq!(
        problems.to_string(),
        "--listen: expected an IP address with a port such as \"[::]:8080\" or \"0.0.0.0:80\", found \"8080\", did you mean \"[::]:8080\"?\n"
    );
}

#[test]
fn development_mode_listens_on_loopback_unless_told_otherwise() {
    let check = |text: &str, listen: &[&str], is_dev: bool, expected: &str| {
        let flags = Flags { listen: listen.iter().map(ToString::to_string).collect(), ..Flags::default() };
        let loaded = load_text(&Source { is_dev, flags, ..Source::default() }, "scalws.toml", text).unwrap();
        let server = loaded.config.server;
        assert_eq!((server.is_dev, server.listen[0].to_string()), (is_dev, expected.to_owned()), "{text}");
    };
    check("", &[], false, "[::]:8080");
    check("", &[], true, "127.0.0.1:8080");
    check("[server]\nlisten = [\"0.0.0.0:1\"]", &[], true, "0.0.0.0:1");
    check("", &["[::]:2"], true, "[::]:2");
}

#[test]
fn a_directory_is_served_when_there_are_no_routes_and_refused_beside_them() {
    let load = |directory: Option<&str>, text| {
        let source = Source { directory: directory.map(PathBuf::from), ..Source::default() };
        load_text(&source, "scalws.toml", text)
    };
    let loaded = load(Some("src"), "[server]\nworkers = 1").unwrap();
    assert!(
        matches!(&loaded.config.routes[0].handler, Handler::Static(files) if files.root == Path::new("src"))
    );
    assert_eq!(loaded.settings.last().unwrap().key, "route.1.static.revalidate");
    let loaded = load(None, "").unwrap();
    assert!(
        matches!(&loaded.config.routes[0].handler, Handler::Static(files) if files.root == Path::new("/srv"))
    );
    let problems = load(Some("src"), "[[route]]\npath = \"/\"\nrespond = {}").unwrap_err();
    assert_eq!(problems.exit_code(), 2);
    assert_eq!(
        problems.to_string(),
        "DIR: expected no directory, as the config has routes of its own, found \"src\"\n"
    );
    let problems = load(Some("/nope"), "").unwrap_err();
    assert_eq!(
        problems.to_string(),
        "DIR: expected a readable directory, found \"/nope\", which does not exist\n"
    );
}

#[test]
fn files_are_read_with_a_byte_order_mark_and_refused_when_they_are_no_text() {
    let directory = std::env::temp_dir().join(format!("scalws-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("scalws.toml");
    let load = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        load(&Source { file: Some(file.clone()), ..Source::default() })
    };
    assert_eq!(load(b"\xef\xbb\xbf[server]\r\nworkers = 2\r\n").unwrap().config.server.workers, Some(2));
    let marked = lines(load(b"\xef\xbb\xbfx = 1"));
    let invalid = lines(load(b"[log]\n# \xc3\xa4\xff"));
    let missing = lines(super::load(&Source { file: Some(directory.join("nope")), ..Source::default() }));
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(marked[0].contains("scalws.toml:1:1: unknown key"), "{marked:?}");
    assert!(invalid[0].ends_with("scalws.toml:2:4: expected UTF-8, found another byte"), "{invalid:?}");
    assert!(missing[0].ends_with("nope\", which does not exist"), "{missing:?}");
}

#[test]
fn the_digest_follows_the_values_and_not_their_origins() {
    let digest = |text| load_with(text, &[]).unwrap().digest;
    assert_eq!(digest(""), digest("[server]\nworkers = \"auto\""));
    assert_ne!(digest(""), digest("[server]\nworkers = 1"));
    assert_eq!(digest("").len(), 16);
}

#[test]
fn explain_shows_every_value_and_its_origin() {
    let text = "[server]\nworkers = 2\n[[route]]\nhost = \"WWW.example.com\"\npath = \"/docs/\"\nstatic = { root = \"src\" }";
    let mut loaded = load_with(text, &[]).unwrap();
    loaded.file = Some("scalws.toml".into());
    let shown = explain::effective(&loaded);
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert_eq!(line("server.workers"), "server.workers = 2                                 # scalws.toml:2");
    assert!(line("server.listen = [\"[::]:8080\"] ").ends_with("# default"));
    assert!(line("route.1.host = \"www.example.com\"").ends_with("# scalws.toml:4"));
    assert!(line("# www.example.com /docs/").ends_with("serves files, symbolic links inside"), "{shown}");
    let keys = loaded.settings.iter().filter(|setting| setting.key.starts_with("limits.")).count();
    assert_eq!(keys, crate::limits::TABLE.len());
}

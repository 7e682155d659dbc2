//! The servers under test, started for real. Those that are not installed are named loudly: a row that
//! was not tried is no proof. scalws has to be there, and is built where it is not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use scalws_lab::fixture::Fixture;
use scalws_lab::scenario::{Body, SCENARIOS, Scenario, Setup, find};
use scalws_lab::servers::{Launch, Running, Server, Started, backend, build, port, start, start_at};
use scalws_lab::{Refusal, cpus, measure};

/// A directory of its own for each test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("scalws-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn fixture(&self) -> Fixture {
        Fixture::lay_out(&self.0.join("fixture")).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scalws() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build(None, "dev").unwrap())
}

fn first_cpu() -> Vec<usize> {
    vec![cpus::allowed(None).unwrap()[0]]
}

fn server(text: &str) -> Server {
    text.parse().unwrap()
}

fn begin(scratch: &Scratch, server: &Server, scenario: &str) -> Result<Started, Refusal> {
    let (fixture, cpus) = (scratch.fixture(), first_cpu());
    let scenario = find(scenario).unwrap();
    let scratch = &scratch.0.join("servers");
    start(&Launch {
        server,
        scenario,
        fixture: &fixture,
        cpus: &cpus,
        scalws: scalws(),
        scratch,
        backend: None,
    })
}

fn running(started: Result<Started, Refusal>) -> Running {
    match started.unwrap() {
        Started::Running(running) => running,
        Started::Lacks(reason) => panic!("lacks: {reason}"),
    }
}

fn refused(started: Result<Started, Refusal>) -> String {
    match started {
        Err(refusal) => refusal.to_string(),
        Ok(Started::Running(running)) => panic!("{} runs", running.name()),
        Ok(Started::Lacks(reason)) => panic!("lacks: {reason}"),
    }
}

/// The whole answer to a request that closes its connection.
fn exchange(address: SocketAddr, scenario: &Scenario, fields: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = scenario.target;
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Status, head and body, without its chunks.
fn taken_apart(answer: &[u8]) -> (u16, String, Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &answer[end..];
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (status, head, rest.to_vec());
    }
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return (status, head, body);
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
}

fn tag(head: &str) -> Option<&str> {
    head.lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("etag")))
        .map(|(_, tag)| tag)
}

/// Asks what the scenario asks, and compares every byte.
fn check(running: &Running, scenario: &Scenario, fixture: &Fixture) {
    let who = format!("{} {}", running.name(), scenario.name);
    let mut fields = scenario.fields.to_owned();
    if fields.contains("{etag}") {
        let (_, head, _) = taken_apart(&exchange(running.address(), scenario, ""));
        fields = fields.replace("{etag}", tag(&head).expect("a tag"));
    }
    // Compression may still be on its way when the first request comes: the next ones count.
    exchange(running.address(), scenario, &fields);
    let (status, head, body) = taken_apart(&exchange(running.address(), scenario, &fields));
    assert_eq!(status, scenario.status, "{who}: {head}");
    let whole = |name| fixture.content(name).unwrap();
    match scenario.body {
        Body::File(name) => assert!(body == whole(name), "{who}: {} bytes, {head}", body.len()),
        Body::Part(name, start, end) => assert!(body == whole(name)[start..end], "{who}: {head}"),
        Body::Text(text) => assert_eq!(body, text.as_bytes(), "{who}: {head}"),
        Body::Nothing => assert_eq!(body, b"", "{who}"),
        Body::Any => {}
        Body::Gzip(name) => {
            assert!(head.to_ascii_lowercase().contains("content-encoding: gzip"), "{who}: {head}");
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("gzip");
            assert!(plain == whole(name), "{who}");
        }
    }
}

/// Over TLS 1.3 with the lab's certificate as the only anchor, by openssl.
fn check_tls(running: &Running, scenario: &Scenario, fixture: &Fixture, certificate: &Path, h2: bool) {
    let who = format!("{} {}", running.name(), scenario.name);
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &running.address().to_string(), "-tls1_3", "-verify_return_error"]);
    command.args(["-servername", "localhost", "-CAfile"]).arg(certificate);
    command.args(if h2 { ["-alpn", "h2"].as_slice() } else { ["-quiet"].as_slice() });
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    if !h2 {
        let target = scenario.target;
        write!(stdin, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let output = child.wait_with_output().unwrap(); // `stdin` stays open: its end would end s_client
        drop(stdin);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.stdout.starts_with(b"HTTP/1.1 200"), "{who}: {said}");
        let Body::File(name) = scenario.body else { panic!("{who}: what body?") };
        assert!(taken_apart(&output.stdout).2 == fixture.content(name).unwrap(), "{who}: {said}");
    } else {
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("ALPN protocol: h2"), "{who}: {said}");
    }
}

/// What ran in a tree is gone, zombies of others' children left out.
fn assert_gone(who: &str, pids: &[u32]) {
    let is_there = |pid: &&u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    };
    let left: Vec<&u32> = pids.iter().filter(is_there).collect();
    assert!(left.is_empty(), "{who}: {left:?} are left of {pids:?}");
}

/// Every row of one server: right bytes, on its CPU, gone at the end; gives the rows that it has not.
fn every_row(text: &str) -> Vec<(&'static str, String)> {
    let scratch = Scratch::new(text);
    let (fixture, cpus, server) = (scratch.fixture(), first_cpu(), server(text));
    let place = scratch.0.join("servers");
    let behind = if port_of_nginx_exists() { Some(backend(&fixture, &cpus, &place).unwrap()) } else { None };
    let mut lacking = Vec::new();
    for scenario in SCENARIOS {
        let backend = behind.as_ref().map(Running::address);
        if scenario.setup == Setup::Proxy && backend.is_none() {
            eprintln!("NOT TRIED: {text} {}: the backend is nginx, which is not installed", scenario.name);
            continue;
        }
        let launch = Launch {
            server: &server,
            scenario,
            fixture: &fixture,
            cpus: &cpus,
            scalws: scalws(),
            scratch: &place,
            backend,
        };
        let mut one =
            match start(&launch).unwrap_or_else(|refusal| panic!("{text} {}: {refusal}", scenario.name)) {
                Started::Running(one) => one,
                Started::Lacks(reason) => {
                    lacking.push((scenario.name, reason));
                    continue;
                }
            };
        let tree = measure::tree(one.pid());
        assert!(one.is_alive() && one.name() == text && !one.config().is_empty());
        assert_ne!(one.version(), "unknown", "{text}");
        assert_eq!(measure::stray_thread(one.pid(), &cpus), None);
        let group =
            rustix::process::getpgid(rustix::process::Pid::from_raw(one.pid().cast_signed())).unwrap();
        assert_eq!(group.as_raw_nonzero().get().cast_unsigned(), one.pid(), "Ctrl-C is for the lab alone");
        if scenario.protocol.is_tls() {
            let h2 = matches!(scenario.protocol, scalws_lab::scenario::Protocol::H2(..));
            check_tls(
                &one,
                scenario,
                &fixture,
                &place.canonicalize().unwrap().join("tls/certificate.pem"),
                h2,
            );
        } else {
            check(&one, scenario, &fixture);
        }
        let address = one.address();
        drop(one);
        assert_gone(text, &tree);
        assert!(TcpStream::connect(address).is_err(), "{text} {}: somebody still answers", scenario.name);
    }
    lacking
}

fn port_of_nginx_exists() -> bool {
    ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"].iter().any(|path| Path::new(path).exists())
}

fn names<'a>(lacking: &'a [(&'static str, String)], reason: &str) -> Vec<&'static str> {
    let of: fn(&'a (&'static str, String)) -> &'static str = |(name, _)| name;
    lacking.iter().filter(|(_, why)| why.contains(reason)).map(of).collect()
}

const TLS_ROWS: [&str; 7] = ["tls-1k", "tls-1m", "tls-full", "tls-resumed", "h2-64x1", "h2-8x32", "h2-16x4"];

#[test]
fn scalws_answers_every_row_that_it_has() {
    let lacking = every_row("scalws");
    assert_eq!(names(&lacking, "no TLS yet (milestone M6)"), TLS_ROWS);
    assert_eq!(names(&lacking, "no proxy yet (milestone M7)"), ["proxy-1k"]);
    assert_eq!(names(&lacking, "--docker"), ["image-layer"]);
    assert_eq!(lacking.len(), TLS_ROWS.len() + 2);
}

/// A server that may be absent; `lacks` are the rows that it never has.
fn stranger(text: &str, lacks: &[&str]) {
    let program = text.split('-').next().unwrap();
    let look = format!("PATH=$PATH:/usr/sbin command -v {program}");
    let is_there = Command::new("sh").args(["-c", &look]).stdout(Stdio::null()).status().unwrap().success();
    if !is_there {
        eprintln!("NOT TRIED: {text} is not installed (apt-get install {program})");
        let scratch = Scratch::new(&format!("{text}-absent"));
        let said = match begin(&scratch, &server(text), "static-1k") {
            Ok(Started::Lacks(reason)) => reason,
            Err(refusal) => refusal.to_string(),
            Ok(Started::Running(_)) => panic!("{text} runs and is not there"),
        };
        assert!(said.contains("apt-get install"), "{said}");
        return;
    }
    let lacking = every_row(text);
    for (name, reason) in &lacking {
        if reason.contains("apt-get install") {
            eprintln!("NOT TRIED: {text} {name}: {reason}");
        } else {
            assert!(lacks.contains(name) || *name == "image-layer", "{text} {name}: {reason}");
        }
    }
    for name in lacks {
        assert!(lacking.iter().any(|(lacked, _)| lacked == name), "{text} has {name} by now");
    }
}

#[test]
fn nginx_answers_every_row() {
    stranger("nginx", &[]);
}

#[test]
fn nginx_without_its_cache_answers_every_row() {
    stranger("nginx-uncached", &[]);
}

#[test]
fn nginx_with_our_buffer_answers_every_row() {
    stranger("nginx-buffer", &[]);
}

#[test]
fn lighttpd_answers_its_rows() {
    stranger("lighttpd", &["respond", "sidecar", "sidecar-miss"]);
}

#[test]
fn h2o_answers_its_rows() {
    stranger("h2o", &[]);
}

#[test]
fn caddy_answers_its_rows() {
    stranger("caddy", &[]);
}

#[test]
fn haproxy_answers_its_rows() {
    let has = ["respond", "not-found", "proxy-1k"];
    let lacks: Vec<&str> =
        SCENARIOS.iter().map(|scenario| scenario.name).filter(|name| !has.contains(name)).collect();
    stranger("haproxy", &lacks);
}

#[test]
fn an_access_log_has_a_line_for_each_request() {
    let scratch = Scratch::new("log");
    let one = running(begin(&scratch, &server("scalws"), "access-log"));
    check(&one, find("access-log").unwrap(), &scratch.fixture());
    let directory = scratch.0.join(format!("servers/scalws-access-log-{}", one.address().port()));
    drop(one); // what was batched is written at the end
    let log = std::fs::read_to_string(directory.join("access.log")).unwrap();
    // One of the start, two of the check.
    assert_eq!(log.lines().filter(|line| line.contains("GET /1k.bin")).count(), 3, "{log}");
}

#[test]
fn any_command_can_be_compared_and_all_that_it_starts_ends() {
    let scratch = Scratch::new("command");
    let scalws = scalws().display();
    // The sleeper leaves the process group, the shell ignores TERM.
    let text = format!(
        "own=sh -c 'trap \"\" TERM; setsid sleep 1000 & {scalws} serve --workers {{workers}} --listen 127.0.0.1:{{port}} {{root}}; true'"
    );
    let one = running(begin(&scratch, &server(&text), "static-1k"));
    assert_eq!((one.name(), one.version()), ("own", "unknown"));
    assert!(one.config().contains(&format!("127.0.0.1:{}", one.address().port())), "{}", one.config());
    check(&one, find("static-1k").unwrap(), &scratch.fixture());
    let tree = measure::tree(one.pid());
    assert_eq!(tree.len(), 3, "a shell, a sleeper, a server: {tree:?}");
    drop(one);
    assert_gone("own", &tree);
    match begin(&scratch, &server(&text), "gzip").unwrap() {
        Started::Lacks(reason) => assert!(reason.contains("takes no {setup}"), "{reason}"),
        Started::Running(_) => panic!("nothing says that it compresses"),
    }
}

#[test]
fn a_port_in_use_is_refused_with_its_holder() {
    let scratch = Scratch::new("port");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (fixture, cpus, server) = (scratch.fixture(), first_cpu(), Server::Scalws);
    let launch = Launch {
        server: &server,
        scenario: find("static-1k").unwrap(),
        fixture: &fixture,
        cpus: &cpus,
        scalws: scalws(),
        scratch: &scratch.0,
        backend: None,
    };
    let said = refused(start_at(&launch, port));
    assert!(said.starts_with(&format!("port {port} is in use by ")), "{said}");
    assert!(said.ends_with(&format!("(process {})", std::process::id())), "{said}");
    drop(listener);
    let one = running(start_at(&launch, port));
    assert_eq!(one.address().port(), port);
    assert_eq!(port::holders(port), [one.pid()]);
}

#[test]
fn a_server_that_dies_at_its_start_is_refused_with_its_last_line() {
    let scratch = Scratch::new("dead");
    let text = "dead=sh -c 'echo first; echo no such thing {port} >&2; exit 3'";
    let said = refused(begin(&scratch, &server(text), "static-1k"));
    assert!(said.starts_with("dead ended at its start: no such thing "), "{said}");
}

#[test]
fn a_server_that_dies_later_is_seen() {
    let scratch = Scratch::new("later");
    let mut one = running(begin(&scratch, &server("scalws"), "static-1k"));
    let tree = measure::tree(one.pid());
    assert!(Command::new("kill").args(["-KILL", &one.pid().to_string()]).status().unwrap().success());
    while one.is_alive() {
        std::thread::yield_now();
    }
    assert!(measure::Counters::of_tree(one.pid()).map_or(true, |counters| counters.threads <= 1));
    drop(one);
    assert_gone("scalws", &tree);
}

#[test]
fn a_thread_on_a_foreign_cpu_is_refused() {
    let all = cpus::allowed(None).unwrap();
    let [first, .., last] = all[..] else {
        eprintln!("NOT TRIED: a foreign CPU: there is but one");
        return;
    };
    let scratch = Scratch::new("stray");
    let scalws = scalws().display();
    let text = format!("stray=taskset -c {last} {scalws} serve --listen 127.0.0.1:{{port}} {{root}}");
    let said = refused(begin(&scratch, &server(&text), "static-1k"));
    assert!(said.contains(&format!("may run on CPUs {last}, not on {first} alone")), "{said}");
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    let scratch = Scratch::new("cpus");
    let (fixture, server) = (scratch.fixture(), Server::Scalws);
    for (cpus, expected) in [(vec![first_cpu()[0], 1_000], "are to be had"), (vec![], "no CPU for scalws")] {
        let launch = Launch {
            server: &server,
            scenario: find("static-1k").unwrap(),
            fixture: &fixture,
            cpus: &cpus,
            scalws: scalws(),
            scratch: &scratch.0,
            backend: None,
        };
        let said = refused(start(&launch));
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn missing_programs_are_refused() {
    let scratch = Scratch::new("missing");
    let said = refused(begin(&scratch, &server("mine=no-such-program {port}"), "static-1k"));
    assert_eq!(said, "mine: there is no program no-such-program");
    let said = refused(begin(&scratch, &server("mine=sh -c true"), "static-1k"));
    assert_eq!(said, "mine: the command needs {port}");
    let missing = Server::Build { name: "scalws@old".into(), binary: "/no/such/scalws".into() };
    let said = refused(begin(&scratch, &missing, "static-1k"));
    assert!(said.starts_with("no scalws at /no/such/scalws: cargo build"), "{said}");
    if port_of_nginx_exists() {
        let said = refused(begin(&scratch, &server("nginx"), "proxy-1k"));
        assert!(said.contains("address of a backend"), "{said}");
    }
}

#[test]
fn what_does_not_build_is_refused_with_its_first_error() {
    let said = build(Some("no-such-reference"), "release").unwrap_err().to_string();
    assert!(said.starts_with("there is no commit no-such-reference in "), "{said}");
    let said = build(Some("--help"), "release").unwrap_err().to_string();
    assert!(said.starts_with("there is no commit --help in "), "{said}");
    let said = build(None, "no-such-profile").unwrap_err().to_string();
    assert!(
        said.starts_with("this tree does not build (no-such-profile): error: profile `no-such-profile`"),
        "{said}"
    );
}

/// 1. The lab is killed: its destructors do not run.
/// 2. Its servers would run on, and the next run would share their CPU with them.
#[test]
fn a_lab_that_is_killed_leaves_no_server() {
    for text in ["scalws", "nginx"] {
        if text == "nginx" && !port_of_nginx_exists() {
            eprintln!("NOT TRIED: nginx is not installed (apt-get install nginx-light)");
            continue;
        }
        scalws();
        let mut lab = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "servers::held_until_killed", "--ignored", "--nocapture"])
            .env("LAB_TEST_SERVER", text)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(lab.stdout.take().unwrap()).lines();
        let tree: Vec<u32> = lines
            .map(Result::unwrap)
            .find_map(|line| line.split_once("TREE ").map(|(_, pids)| pids.to_owned()))
            .expect("it started")
            .split(' ')
            .map(|pid| pid.parse().unwrap())
            .collect();
        lab.kill().unwrap(); // SIGKILL
        lab.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let is_there = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
        };
        while tree.iter().any(is_there) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_gone(text, &tree);
    }
}

/// The other half of the test above: run by it in a process of its own.
#[test]
#[ignore = "run by a_lab_that_is_killed_leaves_no_server"]
fn held_until_killed() {
    let Ok(text) = std::env::var("LAB_TEST_SERVER") else { return };
    let scratch = Scratch::new("held");
    let one = running(begin(&scratch, &server(&text), "static-1k"));
    let tree: Vec<String> = measure::tree(one.pid()).iter().map(u32::to_string).collect();
    println!("TREE {}", tree.join(" "));
    let _ = std::io::stdin().read(&mut [0]); // nobody writes: until the end of the other half
}

//! A client far away: two network namespaces and a relay between them that holds every packet back. The
//! kernel has no netem everywhere; TUN devices and python3 do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{Client, Launch, Server, Site, assert_same, has_program, is_root, noise};

const MIB: usize = 1 << 20;
const SIZE: usize = 24 * MIB;
/// What the kernel makes of 256 KiB: twice that, for data and what it needs beside it (socket(7)).
const CAPPED: usize = 2 * 256 * 1024;
const SERVER: &str = "10.231.7.1";
const CLIENT: &str = "10.231.7.2";

/// Arguments: the two namespaces, and how long a packet is held back in each direction, in milliseconds.
/// Says `ready`, then at the end of its input the most payload of the first namespace that was on its way
/// at once. A packet of TCP over IPv4 alone, as nothing else runs here.
const RELAY: &str = r#"
import collections, ctypes, fcntl, os, select, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def tun(space, address):
    with open(space) as file:
        if libc.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), 'setns')
    fd = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b'far0', 0x1001))
    for words in ['addr add %s/30 dev far0' % address, 'link set far0 up txqueuelen 10000', 'link set lo up']:
        if os.system('ip ' + words):
            raise OSError('ip ' + words)
    return fd
fds = [tun(sys.argv[1], sys.argv[3]), tun(sys.argv[2], sys.argv[4])]
delay, queues, on_way, most = int(sys.argv[5]) / 1000, [collections.deque(), collections.deque()], 0, 0
def payload(packet):
    head = (packet[0] & 15) * 4
    return len(packet) - head - (packet[head + 12] >> 4) * 4 if packet[0] >> 4 == 4 and packet[9] == 6 else 0
print('ready', flush=True)
while True:
    now = time.monotonic()
    due = [queue[0][0] for queue in queues if queue]
    ready = select.select(fds + [0], [], [], max(0, min(due) - now) if due else None)[0]
    if 0 in ready:
        break
    for side in (0, 1):
        for _ in range(64 if fds[side] in ready else 0):
            try:
                packet = os.read(fds[side], 65536)
            except BlockingIOError:
                break
            queues[side].append((time.monotonic() + delay, packet))
            if side == 0:
                on_way += payload(packet)
                most = max(most, on_way)
        while queues[side] and queues[side][0][0] <= time.monotonic():
            packet = queues[side].popleft()[1]
            if side == 0:
                on_way -= payload(packet)
            try:
                os.write(fds[1 - side], packet)
            except OSError:
                pass
print(most, flush=True)
"#;

/// Two namespaces, held by processes that sleep, and the relay.
struct Far {
    holders: Vec<Child>,
    relay: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Far {
    fn new(delay_ms: u32) -> Result<Far, String> {
        let hold = || {
            let mut holder = Command::new("unshare");
            holder
                .args(["-n", "sh", "-c", "echo in; exec sleep 600"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            let mut holder = holder.spawn().map_err(|error| format!("unshare: {error}"))?;
            let mut line = String::new();
            let _ = BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line);
            if line == "in\n" { Ok(holder) } else { Err("no network namespace".to_owned()) }
        };
        let mut holders = vec![hold()?, hold()?];
        let mut relay = Command::new("python3");
        relay.args(["-c", RELAY]).args(holders.iter().map(space));
        relay.args([SERVER, CLIENT, &delay_ms.to_string()]);
        let mut relay = relay.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(relay.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        if line == "ready\n" {
            return Ok(Far { holders, relay, said });
        }
        let _ = relay.wait();
        holders.iter_mut().for_each(end);
        Err("no TUN device in a namespace".to_owned())
    }

    /// Runs `work` on a thread that lives on the server's side (0) or the client's (1).
    fn within<T: Send>(&self, side: usize, work: impl FnOnce() -> T + Send) -> T {
        let space = std::fs::File::open(space(&self.holders[side])).unwrap();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            there.join().unwrap()
        })
    }

    /// The most bytes that were on their way to the client at once.
    fn end(mut self) -> usize {
        drop(self.relay.stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        end(&mut self.relay);
        self.holders.iter_mut().for_each(end);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn space(holder: &Child) -> String {
    format!("/proc/{}/ns/net", holder.id())
}

fn download(far: &Far, address: SocketAddr, content: &[u8]) {
    far.within(1, || {
        let mut client = Client::connect(address);
        assert_same(&client.get("/big").body, content, "a download from far away");
    });
}

/// A send buffer that was capped for everybody: 256 KiB and a round trip of 100 ms are 2.5 MB a second,
/// whatever the link can do. Here more is on its way at once than a capped buffer lets out, as it is when
/// the kernel decides alone.
#[test]
fn a_client_far_away_is_not_held_back() {
    if !is_root() {
        skip!("needs root for network namespaces");
    }
    if !["unshare", "python3", "ip"].iter().all(|program| has_program(program)) {
        skip!("needs unshare, ip and python3");
    }
    let content = noise(1, SIZE);
    let site = Site::new();
    site.file("big", &content);
    let listen = format!("workers = 1\nlisten = [\"{SERVER}:0\"]\nadmin = \"off\"\n");
    let mut most = Vec::new();
    for limits in ["", "[limits]\nsend_buffer = 0\n"] {
        let far = match Far::new(50) {
            Ok(far) => far,
            Err(why) => skip!("{why}"),
        };
        let launch = Launch::new(&site, &listen, &format!("{limits}{}", site.route()));
        let server: Server = far.within(0, || launch.start());
        download(&far, server.address, &content);
        most.push(far.end());
    }
    eprintln!("on their way at once: {} bytes, {} with the buffer of the kernel", most[0], most[1]);
    assert!(most.iter().all(|most| *most > 2 * CAPPED), "{most:?} bytes on their way at once");
}

/// And the relay does hold back: a peer whose buffer is capped, which is what must not happen above.
#[test]
fn a_capped_buffer_far_away_shows() {
    if !is_root() || !["unshare", "python3", "ip"].iter().all(|program| has_program(program)) {
        skip!("needs root, unshare, ip and python3");
    }
    let far = match Far::new(50) {
        Ok(far) => far,
        Err(why) => skip!("{why}"),
    };
    let content = noise(1, 8 * MIB);
    let listener = far.within(0, || TcpListener::bind((SERVER, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            // Read, or its close would be a reset.
            BufReader::new(&stream).lines().find(|line| line.as_ref().unwrap().is_empty());
            socket2::SockRef::from(&stream).set_send_buffer_size(256 * 1024).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&content).unwrap();
        });
        download(&far, address, &content);
    });
    let most = far.end();
    assert!(most > CAPPED / 8 && most < 2 * CAPPED, "{most} bytes on their way at once");
}

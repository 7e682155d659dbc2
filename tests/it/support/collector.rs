//! A collector of spans: the service of the OpenTelemetry protocol over gRPC, and over HTTP with protobuf,
//! as its definitions have it. It keeps what it took, and can be told to misbehave.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tonic::codec::CompressionEncoding;

use super::until;

/// The two ways to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    pub const BOTH: [Protocol; 2] = [Protocol::Grpc, Protocol::Http];

    /// As in OTEL_EXPORTER_OTLP_PROTOCOL.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http/protobuf",
        }
    }
}

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Takes everything.
    Takes,
    /// Takes it after a while.
    Slow(Duration),
    /// Answers that it takes nothing.
    Refuses,
    /// Takes all but so many of each request.
    TakesBut(i64),
}

/// A span with the resource that it came with, attributes by name.
#[derive(Clone, Debug)]
pub struct Taken {
    pub span: Span,
    pub attributes: BTreeMap<String, Value>,
    pub resource: BTreeMap<String, Value>,
}

impl Taken {
    /// The text of an attribute.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name)? {
            Value::StringValue(text) => Some(text),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// The number of an attribute.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name)? {
            Value::IntValue(number) => Some(*number),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Events with their times.
    pub fn events(&self) -> BTreeMap<&str, u64> {
        self.span.events.iter().map(|event| (event.name.as_str(), event.time_unix_nano)).collect()
    }
}

#[derive(Debug)]
struct Kept {
    manner: Manner,
    taken: Vec<Taken>,
    /// Fields of the last request.
    fields: BTreeMap<String, String>,
}

/// See the module. Ends with the test.
pub struct Collector {
    pub address: SocketAddr,
    pub protocol: Protocol,
    kept: Arc<Mutex<Kept>>,
    /// Its runtime; dropped with it.
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    pub fn start(protocol: Protocol, manner: Manner) -> Collector {
        Self::start_on(TcpListener::bind("127.0.0.1:0").unwrap(), protocol, manner)
    }

    pub fn start_on(listener: TcpListener, protocol: Protocol, manner: Manner) -> Collector {
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let kept = Arc::new(Mutex::new(Kept { manner, taken: Vec::new(), fields: BTreeMap::new() }));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let service = Service(Arc::clone(&kept));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            match protocol {
                Protocol::Grpc => {
                    let incoming = tonic::transport::server::TcpIncoming::from(listener);
                    let server = tonic::transport::Server::builder();
                    let mut server = server;
                    server
                        .add_service(
                            TraceServiceServer::new(service).accept_compressed(CompressionEncoding::Gzip),
                        )
                        .serve_with_incoming(incoming)
                        .await
                        .unwrap();
                }
                Protocol::Http => serve_http(listener, service).await,
            }
        });
        Collector { address, protocol, kept, _runtime: runtime }
    }

    /// The variables that name it.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        variables(self.address, self.protocol)
    }

    pub fn taken(&self) -> Vec<Taken> {
        lock(&self.kept).taken.clone()
    }

    /// A field of the last request.
    pub fn field(&self, name: &str) -> Option<String> {
        lock(&self.kept).fields.get(name).cloned()
    }

    /// All that was taken, once it is so much.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Taken> {
        until(&format!("{count} spans"), || self.taken().len() >= count);
        let taken = self.taken();
        assert_eq!(
            taken.len(),
            count,
            "{:#?}",
            taken.iter().map(|taken| &taken.span.name).collect::<Vec<_>>()
        );
        taken
    }
}

/// The variables that name a collector, and let it have spans soon.
pub fn variables(address: SocketAddr, protocol: Protocol) -> Vec<(&'static str, String)> {
    vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.name().to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "10".to_owned()),
    ]
}

fn lock(kept: &Mutex<Kept>) -> std::sync::MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn by_name(attributes: &[KeyValue]) -> BTreeMap<String, Value> {
    let pair = |pair: &KeyValue| {
        let value = pair.value.clone().and_then(|value| value.value).expect("an attribute has a value");
        (pair.key.clone(), value)
    };
    let found: BTreeMap<_, _> = attributes.iter().map(pair).collect();
    assert_eq!(found.len(), attributes.len(), "a name twice: {attributes:?}");
    found
}

#[derive(Clone)]
struct Service(Arc<Mutex<Kept>>);

impl Service {
    /// Takes a request as it is told to; `None` where it takes nothing.
    async fn take(&self, request: ExportTraceServiceRequest) -> Option<ExportTraceServiceResponse> {
        let manner = lock(&self.0).manner;
        if let Manner::Slow(time) = manner {
            tokio::time::sleep(time).await;
        }
        let mut taken = Vec::new();
        for resource_spans in request.resource_spans {
            let resource = by_name(&resource_spans.resource.expect("a resource").attributes);
            for scope_spans in resource_spans.scope_spans {
                assert_eq!(scope_spans.scope.as_ref().map(|scope| scope.name.as_str()), Some("scalws"));
                for span in scope_spans.spans {
                    let attributes = by_name(&span.attributes);
                    taken.push(Taken { span, attributes, resource: resource.clone() });
                }
            }
        }
        let partial_success = match manner {
            Manner::Refuses => return None,
            Manner::TakesBut(count) => {
                let left = taken.len().saturating_sub(usize::try_from(count).unwrap());
                let rejected_spans = i64::try_from(taken.len() - left).unwrap();
                taken.truncate(left);
                Some(ExportTracePartialSuccess { rejected_spans, error_message: "too many".to_owned() })
            }
            Manner::Takes | Manner::Slow(_) => None,
        };
        lock(&self.0).taken.extend(taken);
        Some(ExportTraceServiceResponse { partial_success })
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let fields = request.metadata().clone().into_headers();
        lock(&self.0).fields = texts(&fields);
        let answer = self.take(request.into_inner()).await;
        answer.map(tonic::Response::new).ok_or_else(|| tonic::Status::resource_exhausted("full"))
    }
}

fn texts(fields: &hyper::HeaderMap) -> BTreeMap<String, String> {
    let pair = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    fields.iter().filter_map(pair).collect()
}

async fn serve_http(listener: tokio::net::TcpListener, service: Service) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service.clone();
        let answer = move |request: hyper::Request<Incoming>| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(answer_http(&service, request).await) }
        };
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            let _ = connection.await;
        });
    }
}

async fn answer_http(service: &Service, request: hyper::Request<Incoming>) -> hyper::Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let answer = |status: u16, body: Vec<u8>| {
        let answer =
            hyper::Response::builder().status(status).header("content-type", "application/x-protobuf");
        answer.body(Full::new(Bytes::from(body))).unwrap()
    };
    let is_right = head.method == "POST"
        && head.uri.path() == "/v1/traces"
        && head.headers.get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = match head.headers.get("content-encoding") {
        None => body,
        Some(coding) => {
            assert_eq!(coding, "gzip");
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("gzip");
            plain.into()
        }
    };
    let Ok(spans) = ExportTraceServiceRequest::decode(body) else { return answer(400, Vec::new()) };
    if !is_right {
        return answer(404, Vec::new());
    }
    lock(&service.0).fields = texts(&head.headers);
    match service.take(spans).await {
        Some(taken) => answer(200, taken.encode_to_vec()),
        None => answer(429, Vec::new()),
    }
}

//! One request to a collector, over gRPC or HTTP, and what became of its spans. Nothing is sent twice: who
//! gave no answer may have taken them (docs/adr/0036-spans-after-the-request.md).

use std::error::Error;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use tokio::net::TcpStream;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::transport::{Channel, Endpoint};

use crate::config::checked::{Protocol, Traces};
use crate::telemetry::kinds::Lost;

/// Longest answer that is read: a partial success with a word about it.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A way to the collector.
pub(super) enum Transport {
    Grpc { client: TraceServiceClient<Channel>, metadata: MetadataMap },
    Http(Place),
}

/// Where and how a collector takes HTTP.
pub(super) struct Place {
    authority: String,
    path: String,
    headers: Vec<(String, String)>,
    is_compressed: bool,
}

/// Why spans were not taken, for counters and for people.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) lost: Lost,
    pub(super) error: String,
}

impl Failure {
    fn new(lost: Lost, error: impl ToString) -> Failure {
        Failure { lost, error: error.to_string() }
    }
}

impl Transport {
    /// Connects with the first request. Within the runtime that will send.
    pub(super) fn new(traces: &Traces) -> Result<Transport, String> {
        match traces.protocol {
            Protocol::Grpc => {
                let endpoint =
                    Endpoint::from_shared(traces.endpoint.clone()).map_err(|error| error.to_string())?;
                // A connection that is dead is found by the request that gets no answer, and not kept for the
                // quarter of an hour that the kernel would go on sending. Not while nothing is sent: collectors
                // take frequent pings for an attack, and answer with the end of the connection.
                let endpoint = endpoint
                    .connect_timeout(traces.timeout)
                    .http2_keep_alive_interval(traces.timeout / 2)
                    .keep_alive_timeout(traces.timeout)
                    .keep_alive_while_idle(false);
                let mut client = TraceServiceClient::new(endpoint.connect_lazy());
                if traces.is_compressed {
                    client = client.send_compressed(CompressionEncoding::Gzip);
                }
                Ok(Transport::Grpc { client, metadata: metadata(&traces.headers) })
            }
            Protocol::Http => {
                let rest = traces.endpoint.strip_prefix("http://").unwrap_or(&traces.endpoint);
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let path = if path.is_empty() { "/" } else { path };
                Ok(Transport::Http(Place {
                    authority: authority.to_owned(),
                    path: path.to_owned(),
                    headers: traces.headers.clone(),
                    is_compressed: traces.is_compressed,
                }))
            }
        }
    }

    /// Sends a request; how many of its spans the collector did not take although it took the others.
    pub(super) async fn send(&mut self, spans: ExportTraceServiceRequest) -> Result<u64, Failure> {
        let answer = match self {
            Transport::Grpc { client, metadata } => {
                let mut request = tonic::Request::new(spans);
                *request.metadata_mut() = metadata.clone();
                client.export(request).await.map_err(|status| of_status(&status))?.into_inner()
            }
            Transport::Http(place) => post(place, &spans).await?,
        };
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }
}

fn metadata(headers: &[(String, String)]) -> MetadataMap {
    let mut map = MetadataMap::new();
    for (name, value) in headers {
        // Names that gRPC has a use of its own for, such as those for binary values, are left out.
        if let (Ok(name), Ok(value)) = (MetadataKey::from_bytes(name.as_bytes()), value.parse()) {
            map.insert(name, value);
        }
    }
    map
}

/// A status of the collector, or one that the client made of an error of its connection.
fn of_status(status: &tonic::Status) -> Failure {
    match (status.code(), status.source()) {
        (tonic::Code::DeadlineExceeded, _) => Failure::new(Lost::Timeout, status.message()),
        (_, Some(cause)) => Failure::new(Lost::Unreachable, innermost(cause)),
        (code, None) => Failure::new(Lost::Rejected, format!("{code:?}: {}", status.message())),
    }
}

/// The last cause: the one that says what happened.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Like all that is sent for others to read once: the level that costs least.
fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

async fn post(
    place: &Place,
    spans: &ExportTraceServiceRequest,
) -> Result<ExportTraceServiceResponse, Failure> {
    let Place { authority, path, headers, is_compressed } = place;
    let unreachable = |error: &(dyn Error + 'static)| Failure::new(Lost::Unreachable, innermost(error));
    let address = if crate::semantics::head::split_port(authority.as_bytes()).1.is_some() {
        authority.clone()
    } else {
        format!("{authority}:80")
    };
    let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| unreachable(&error))?;
    // Ends with the answer, or with the sender.
    let connection = tokio::spawn(connection);
    let mut request = hyper::Request::post(path.as_str())
        .header(hyper::header::HOST, authority.as_str())
        .header(hyper::header::CONTENT_TYPE, "application/x-protobuf")
        .header(hyper::header::USER_AGENT, concat!("scalws/", env!("CARGO_PKG_VERSION")));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut body = spans.encode_to_vec();
    if *is_compressed {
        request = request.header(hyper::header::CONTENT_ENCODING, "gzip");
        body = gzip(&body).map_err(|error| Failure::new(Lost::Rejected, error))?;
    }
    let request =
        request.body(Full::new(Bytes::from(body))).map_err(|error| Failure::new(Lost::Rejected, error))?;
    let answer = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    if !status.is_success() {
        return Err(Failure::new(Lost::Rejected, status));
    }
    // What it took is taken, whatever it says about it.
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(ExportTraceServiceResponse::decode(body).unwrap_or_default())
}

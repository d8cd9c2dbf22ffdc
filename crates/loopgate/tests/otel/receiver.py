"""An OTLP receiver that decodes by the published protocol definitions. It prints its port, then a JSON line for each request."""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

KINDS = {
    "/v1/traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse),
    "/v1/metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    "/v1/logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
}


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes(pairs):
    names = [pair.key for pair in pairs]
    assert len(names) == len(set(names)), f"a name is there twice: {names}"
    return {pair.key: value(pair.value) for pair in pairs}


def unknown(message):
    """Fields that the definitions do not have, at any depth."""
    found = len(UnknownFieldSet(message))
    for field, held in message.ListFields():
        if field.message_type is not None:
            for one in [held] if isinstance(held, Message) else held:
                found += unknown(one)
    return found


def spans_of(request):
    for of_resource in request.resource_spans:
        resource = attributes(of_resource.resource.attributes)
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                yield {
                    "resource": resource,
                    "scope": scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": span.kind,
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "events": [{"name": e.name, "at": e.time_unix_nano, "attributes": attributes(e.attributes)} for e in span.events],
                    "links": [{"trace": link.trace_id.hex(), "id": link.span_id.hex()} for link in span.links],
                    "status": span.status.code,
                    "message": span.status.message,
                    "flags": span.flags,
                }


def metrics_of(request):
    for of_resource in request.resource_metrics:
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                points = getattr(metric, kind).data_points
                for point in points:
                    one = {"name": metric.name, "unit": metric.unit, "kind": kind, "attributes": attributes(point.attributes)}
                    assert point.time_unix_nano >= point.start_time_unix_nano > 0
                    if kind == "histogram":
                        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                        assert sum(point.bucket_counts) == point.count
                        one |= {"count": point.count, "sum": point.sum}
                    else:
                        assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2
                        one |= {"sum": point.as_double}
                    yield one


def logs_of(request):
    for of_resource in request.resource_logs:
        for scope in of_resource.scope_logs:
            for record in scope.log_records:
                yield {
                    "event": record.event_name,
                    "trace": record.trace_id.hex(),
                    "span": record.span_id.hex(),
                    "severity": record.severity_text,
                    "body": record.body.string_value,
                    "attributes": attributes(record.attributes),
                }


READERS = {"/v1/traces": spans_of, "/v1/metrics": metrics_of, "/v1/logs": logs_of}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        encoding = self.headers.get("content-encoding")
        if encoding == "gzip":
            body = gzip.decompress(body)
        request, response = KINDS[self.path]
        message = request()
        message.ParseFromString(body)
        # What is written in another way than by the definitions would be another message.
        assert MessageToDict(request.FromString(message.SerializeToString())) == MessageToDict(message)
        line = {
            "path": self.path,
            "type": self.headers["content-type"],
            "key": self.headers.get("api-key"),
            "encoding": encoding,
            "unknown": unknown(message),
            "items": list(READERS[self.path](message)),
        }
        print(json.dumps(line), flush=True)
        answer = response().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"port": server.server_port}), flush=True)
sys.stdout.flush()
server.serve_forever()

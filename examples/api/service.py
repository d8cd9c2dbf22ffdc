#!/usr/bin/env python3
"""The order service of the example: orders, shipments and credits, in memory and on this machine alone.

    python3 examples/api/service.py [--port 8093]

It prints the address that it listens on. With --port 0 the system chooses the port. Ctrl-C ends it.
It needs Python 3.8 and nothing else, and it is a toy: it asks for no password and forgets everything when it ends.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 2

ORDERS = [
    {"id": "O-201", "customer": "C-3", "ordered_on": "2026-01-08", "state": "delivered", "total": 42.5, "shipment": "S-5001"},
    {"id": "O-202", "customer": "C-3", "ordered_on": "2026-01-21", "state": "delivered", "total": 18.0, "shipment": "S-5002"},
    {"id": "O-203", "customer": "C-3", "ordered_on": "2026-02-02", "state": "shipped", "total": 129.9, "shipment": "S-5003"},
    {"id": "O-204", "customer": "C-3", "ordered_on": "2026-02-12", "state": "open", "total": 75.0, "shipment": None},
    {"id": "O-205", "customer": "C-3", "ordered_on": "2026-02-13", "state": "open", "total": 9.9, "shipment": None},
    {"id": "O-310", "customer": "C-8", "ordered_on": "2026-02-03", "state": "shipped", "total": 61.0, "shipment": "S-5010"},
]

SHIPMENTS = {
    "S-5001": {"carrier": "Northline", "state": "delivered", "last_scan": "2026-01-10 Wexley", "detail": "Handed over at the door"},
    "S-5002": {"carrier": "Northline", "state": "delivered", "last_scan": "2026-01-24 Wexley", "detail": "Handed over at the door"},
    "S-5003": {"carrier": "Northline", "state": "at the depot", "last_scan": "2026-02-06 Marle", "detail": "Delivery failed: the address label is damaged"},
    "S-5010": {"carrier": "Ferrow", "state": "on the way", "last_scan": "2026-02-05 Tarn", "detail": "Expected on 2026-02-07"},
}

CREDITS = []
ANSWERED = {}
LOCK = threading.Lock()

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "ordered_on": {"type": "string", "format": "date"},
        "state": {"type": "string", "enum": ["open", "shipped", "delivered"]},
        "total": {"type": "number"},
        "shipment": {"type": ["string", "null"]},
    },
}


def path_parameter(name, description, example):
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}, "example": example}


def answers(description, schema):
    return {"200": {"description": description, "content": {"application/json": {"schema": schema}}}}


OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Order service", "version": "1"},
    "paths": {
        "/customers/{customer}/orders": {
            "get": {
                "operationId": "listOrders",
                "tags": ["orders"],
                "summary": "List the orders of a customer, oldest first",
                "parameters": [
                    path_parameter("customer", "The customer's number", "C-3"),
                    {"name": "state", "in": "query", "description": "Only orders in this state", "schema": {"type": "string", "enum": ["open", "shipped", "delivered"]}},
                    {"name": "after", "in": "query", "description": "The cursor of the next page", "schema": {"type": "string"}},
                ],
                "responses": answers("A page of orders", {
                    "type": "object",
                    "properties": {"items": {"type": "array", "items": ORDER}, "next": {"type": ["string", "null"]}},
                }),
            }
        },
        "/shipments/{shipment}": {
            "get": {
                "operationId": "getShipment",
                "tags": ["shipments"],
                "summary": "Get a shipment: carrier, state, last scan and detail",
                "parameters": [path_parameter("shipment", "The shipment's number", "S-5001")],
                "responses": answers("The shipment", {"type": "object"}),
            }
        },
        "/orders/{order}/credits": {
            "post": {
                "operationId": "addCredit",
                "tags": ["orders"],
                "summary": "Give a customer credit for an order",
                "parameters": [
                    path_parameter("order", "The order's number", "O-201"),
                    {"name": "Idempotency-Key", "in": "header", "required": True, "description": "A second request with the same key changes nothing", "schema": {"type": "string"}},
                ],
                "requestBody": {"required": True, "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["amount", "reason"],
                    "properties": {
                        "amount": {"type": "number", "minimum": 0, "description": "How much, in euros"},
                        "reason": {"type": "string", "description": "Why, in a sentence"},
                    },
                }}}},
                "responses": answers("The credit", {"type": "object"}),
            },
            "get": {
                "operationId": "listCredits",
                "tags": ["orders"],
                "summary": "List the credits of an order",
                "parameters": [path_parameter("order", "The order's number", "O-201")],
                "responses": answers("The credits", {"type": "array", "items": {"type": "object"}}),
            },
        },
    },
}


def list_orders(customer, query):
    state = query.get("state", [None])[0]
    after = query.get("after", [""])[0]
    rows = [order for order in ORDERS if order["customer"] == customer and state in (None, order["state"]) and order["id"] > after]
    page = [{key: value for key, value in order.items() if key != "customer"} for order in rows[:PAGE]]
    return 200, {"items": page, "next": page[-1]["id"] if len(rows) > PAGE else None}


def get_shipment(shipment):
    found = SHIPMENTS.get(shipment)
    return (200, dict(id=shipment, **found)) if found else (404, {"error": "there is no such shipment"})


def add_credit(order, key, body):
    """Adds a credit once: the same key gets the same answer again."""
    known = next((known for known in ORDERS if known["id"] == order), None)
    if known is None:
        return 404, {"error": "there is no such order"}
    if not key:
        return 400, {"error": "the header Idempotency-Key is missing"}
    amount, reason = body.get("amount"), body.get("reason")
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 < amount <= known["total"]:
        return 422, {"error": "the amount is not between 0 and the total of the order"}
    if not isinstance(reason, str) or not reason.strip():
        return 422, {"error": "the reason is missing"}
    with LOCK:
        if key not in ANSWERED:
            credit = {"id": "CR-%d" % (len(CREDITS) + 1), "order": order, "amount": amount, "reason": reason}
            CREDITS.append(credit)
            ANSWERED[key] = credit
        return 200, ANSWERED[key]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(*self.get())

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        try:
            body = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            body = None
        parts = self.parts()
        if not isinstance(body, dict):
            return self.answer(400, {"error": "the body is not a JSON object"})
        if len(parts) == 3 and (parts[0], parts[2]) == ("orders", "credits"):
            return self.answer(*add_credit(parts[1], self.headers.get("idempotency-key"), body))
        self.answer(404, {"error": "there is no such route"})

    def get(self):
        parts, query = self.parts(), parse_qs(urlsplit(self.path).query)
        if parts == ["openapi.json"]:
            return 200, OPENAPI
        if len(parts) == 3 and (parts[0], parts[2]) == ("customers", "orders"):
            return list_orders(parts[1], query)
        if len(parts) == 2 and parts[0] == "shipments":
            return get_shipment(parts[1])
        if len(parts) == 3 and (parts[0], parts[2]) == ("orders", "credits"):
            with LOCK:
                return 200, [credit for credit in CREDITS if credit["order"] == parts[1]]
        return 404, {"error": "there is no such route"}

    def parts(self):
        return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

    def answer(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, form, *values):
        pass


def main():
    parser = argparse.ArgumentParser(description="The order service of the example")
    parser.add_argument("--port", type=int, default=8093, help="the port, or 0 for any that is free")
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    print("listening on http://127.0.0.1:%d" % server.server_port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

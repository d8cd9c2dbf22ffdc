"""A client that openapi-python-client generated, against `loopgate serve`: one line on standard output for each thing that
was seen.

openapi_client.py URL TOKEN
"""

import sys

from loopgate_client import AuthenticatedClient
from loopgate_client.api.default import (
    approve_action,
    get_document,
    get_outcome,
    get_run,
    list_audit,
    list_domains,
    list_pending,
    list_runs,
    submit_run,
)
from loopgate_client.models.approve_request import ApproveRequest
from loopgate_client.models.problem import Problem
from loopgate_client.models.run_state import RunState
from loopgate_client.models.submit_request import SubmitRequest

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], timeout=90)
print("domains", *[domain.name for domain in list_domains.sync(client=client).domains])
asked = SubmitRequest(item="search_user Bob, get_user_by_id 42, update_user 42 EPAM", tags=["generated"])
run = submit_run.sync(client=client, body=asked, prefer="wait=60", idempotency_key="k")
print("submitted", run.state, run.state is RunState.WAITING)
again = submit_run.sync_detailed(client=client, body=asked, idempotency_key="k")
print("again", again.status_code.value, again.parsed.run == run.run)
[action] = list_pending.sync(client=client, run=run.run).pending
print("pending", action.tool, action.question)
wrong = approve_action.sync(run=run.run, client=client, body=ApproveRequest(key=action.action, binding="0"))
print("wrong", isinstance(wrong, Problem) and wrong.type_)
approved = approve_action.sync(
    run=run.run, client=client, body=ApproveRequest(key=action.action, binding=action.binding)
)
print("approved", approved.run == run.run)
ended = get_run.sync(run=run.run, client=client, prefer="wait=60")
print("ended", ended.state, ended.class_, ended.cost.pico_usd)
document = get_document.sync_detailed(run=run.run, client=client).content.decode()
print("document", "company EPAM" in document)
print("outcome", get_outcome.sync(run=run.run, client=client).stop.reason)
print("listed", [listed.run for listed in list_runs.sync(client=client, tag="generated").runs] == [run.run])
print("audited", *[f"{line.entry.action} {line.entry.result}" for line in list_audit.sync(client=client).entries])
unknown = get_run.sync_detailed(run="nope", client=client)
print("unknown", unknown.status_code.value, unknown.parsed.title)

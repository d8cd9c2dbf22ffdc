"""The official Python SDKs of OpenAI, Anthropic, Google and Mistral, and LiteLLM, against `loopgate mock`. Usage: vendor_sdks.py URL

Prints a line for each exchange that went as the SDK has it, and fails at the first that did not.
"""

import base64
import json
import os
import sys

# LiteLLM asks the network for its tables otherwise.
os.environ["LITELLM_OFFLINE_MODE"] = "true"

import anthropic
import litellm
import openai
from google import genai
from google.genai import types
from mistralai.client import Mistral
from pydantic import BaseModel

URL = sys.argv[1]
ROOT = URL.removesuffix("/v1")
MODEL = "offline-1"
TEXT = 'fetch_customer "CUST-7"'
ADA = "Ada Brown, ada@brown.example"
SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
TOOLS = [{"type": "function", "function": {"name": "fetch_customer", "description": "Fetch a customer", "parameters": SCHEMA}}]


class Person(BaseModel):
    name: str
    email: str


def check(what, holds):
    if not holds:
        sys.exit(f"{what} is not as expected")
    print(what)


def user(text):
    return [{"role": "user", "content": text}]


def of_openai():
    client = openai.OpenAI(base_url=URL, api_key="k", max_retries=0)
    check("openai models", client.models.retrieve(MODEL).id == MODEL and MODEL in [m.id for m in client.models.list()])
    messages = user(TEXT)
    reply = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    calls = reply.choices[0].message.tool_calls
    check("openai chat call", json.loads(calls[0].function.arguments)["number"] == "CUST-7" and reply.usage.total_tokens > 0)
    messages.append(reply.choices[0].message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": calls[0].id, "content": "Ada Brown"})
    again = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    check("openai chat result", "Ada Brown" in again.choices[0].message.content)
    chunks = client.chat.completions.create(model=MODEL, messages=user("Hello"), stream=True)
    check("openai chat stream", "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) != "")
    parsed = client.chat.completions.parse(
        model=MODEL, messages=user(ADA), response_format=Person
    )
    check("openai chat parse", isinstance(parsed.choices[0].message.parsed, Person))
    flat = [{"type": "function", "name": "fetch_customer", "parameters": SCHEMA, "strict": False}]
    reply = client.responses.create(model=MODEL, input=TEXT, tools=flat)
    call = next(item for item in reply.output if item.type == "function_call")
    check("openai responses call", json.loads(call.arguments)["number"] == "CUST-7")
    with client.responses.stream(model=MODEL, input="Hello") as stream:
        kinds = {event.type for event in stream}
        check("openai responses stream", "response.completed" in kinds and stream.get_final_response().output_text != "")
    parsed = client.responses.parse(model=MODEL, input=ADA, text_format=Person)
    check("openai responses parse", isinstance(parsed.output_parsed, Person))


def of_anthropic():
    client = anthropic.Anthropic(base_url=ROOT, api_key="k", max_retries=0)
    check("anthropic models", client.models.retrieve(MODEL).id == MODEL)
    tools = [{"name": "fetch_customer", "description": "Fetch a customer", "input_schema": SCHEMA}]
    messages = user(TEXT)
    count = client.messages.count_tokens(model=MODEL, messages=messages, tools=tools)
    check("anthropic count", count.input_tokens > 0)
    reply = client.messages.create(model=MODEL, max_tokens=500, messages=messages, tools=tools)
    call = next(block for block in reply.content if block.type == "tool_use")
    check("anthropic call", call.input["number"] == "CUST-7" and reply.stop_reason == "tool_use")
    messages.append({"role": "assistant", "content": reply.content})
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Ada Brown"}]})
    again = client.messages.create(model=MODEL, max_tokens=500, messages=messages, tools=tools)
    check("anthropic result", "Ada Brown" in again.content[0].text)
    thread = client.beta.messages.thread(model=MODEL, max_tokens=500)
    thread.send(user("Hello")[0])
    check("anthropic thread", thread.send(user("And now?")[0]).content[0].text != "")
    with client.messages.stream(model=MODEL, max_tokens=500, messages=user("Hello")) as stream:
        check("anthropic stream", "".join(stream.text_stream) == stream.get_final_message().content[0].text)


def of_google():
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=ROOT))
    check("google models", MODEL in client.models.get(model=MODEL).name and client.models.list()[0].name.endswith(MODEL))
    declared = types.FunctionDeclaration(name="fetch_customer", description="Fetch a customer", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    check("google count", client.models.count_tokens(model=MODEL, contents=TEXT).total_tokens > 0)
    reply = client.models.generate_content(model=MODEL, contents=TEXT, config=config)
    check("google call", reply.function_calls[0].args["number"] == "CUST-7")
    for part in reply.candidates[0].content.parts:
        if part.thought_signature:
            base64.b64encode(part.thought_signature)
    answer = types.Part.from_function_response(name="fetch_customer", response={"result": "Ada Brown"})
    answer.function_response.id = reply.function_calls[0].id
    turns = [types.Content(role="user", parts=[types.Part(text=TEXT)]), reply.candidates[0].content]
    turns.append(types.Content(role="user", parts=[answer]))
    check("google result", "Ada Brown" in client.models.generate_content(model=MODEL, contents=turns, config=config).text)
    pieces = client.models.generate_content_stream(model=MODEL, contents="Hello")
    check("google stream", "".join(piece.text or "" for piece in pieces) != "")
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Person)
    parsed = client.models.generate_content(model=MODEL, contents=ADA, config=config)
    check("google parse", isinstance(parsed.parsed, Person))


def of_litellm():
    for provider, base, model in [
        ("openai", URL, MODEL),
        ("openai/responses", URL, MODEL),
        ("hosted_vllm", URL, MODEL),
        ("mistral", URL, MODEL),
        ("anthropic", ROOT, "claude-sonnet-4-5"),
        # Of a model that it does not know it has the schema in the prompt.
        ("gemini", f"{ROOT}/v1beta", "gemini-2.5-flash"),
    ]:
        given = {"model": f"{provider}/{model}", "api_base": base, "api_key": "k", "num_retries": 0}
        messages = user(TEXT)
        reply = litellm.completion(messages=messages, tools=TOOLS, **given).choices[0].message
        check(f"litellm {provider} call", json.loads(reply.tool_calls[0].function.arguments)["number"] == "CUST-7")
        messages.append(reply.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "Ada Brown"})
        again = litellm.completion(messages=messages, tools=TOOLS, **given)
        check(f"litellm {provider} result", "Ada Brown" in again.choices[0].message.content and again.usage.total_tokens > 0)
        pieces = litellm.completion(messages=user("Hello"), stream=True, **given)
        check(f"litellm {provider} stream", "".join(piece.choices[0].delta.content or "" for piece in pieces) != "")
        parsed = litellm.completion(messages=user(ADA), response_format=Person, **given)
        check(f"litellm {provider} parse", Person.model_validate_json(parsed.choices[0].message.content))


def of_mistral():
    client = Mistral(api_key="k", server_url=ROOT)
    reply = client.chat.complete(model=MODEL, messages=user(TEXT), tools=TOOLS).choices[0].message
    check("mistral call", json.loads(reply.tool_calls[0].function.arguments)["number"] == "CUST-7")
    result = {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "name": "fetch_customer", "content": "Ada Brown"}
    again = client.chat.complete(model=MODEL, messages=[*user(TEXT), reply, result], tools=TOOLS)
    check("mistral result", "Ada Brown" in again.choices[0].message.content)
    pieces = client.chat.stream(model=MODEL, messages=user("Hello"))
    check("mistral stream", "".join(piece.data.choices[0].delta.content or "" for piece in pieces if piece.data.choices) != "")
    parsed = client.chat.parse(Person, model=MODEL, messages=user(ADA))
    check("mistral parse", isinstance(parsed.choices[0].message.parsed, Person))


of_openai()
of_anthropic()
of_google()
of_litellm()
of_mistral()

"""Prints the data of a wheel of genai-prices as JSON, without running any of its code."""

import ast
import json
import sys
import zipfile


def read(node):
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple():
            return [read(element) for element in node.elts]
        case ast.Dict():
            return {read(key): read(value) for key, value in zip(node.keys, node.values)}
        case ast.Call(func=ast.Name(id="Decimal"), args=[ast.Constant(value=str(text))], keywords=[]):
            return text
        case ast.Call(func=ast.Attribute(attr="date"), args=[year, month, day], keywords=[]):
            return f"{read(year):04}-{read(month):02}-{read(day):02}"
        case ast.Call(func=ast.Attribute(attr="time"), args=[hour, minute], keywords=keywords):
            zones = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
            if zones in ({}, {"tzinfo": "datetime.UTC"}, {"tzinfo": "datetime.timezone.utc"}):
                return f"{read(hour):02}:{read(minute):02}"
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return {"is": name} | {keyword.arg: read(keyword.value) for keyword in keywords}
    raise SystemExit(f"data.py:{node.lineno}: not understood: {ast.unparse(node)[:200]}")


with zipfile.ZipFile(sys.argv[1]) as wheel:
    module = ast.parse(wheel.read("genai_prices/data.py"))
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    lines = wheel.read(metadata).decode().splitlines()

version = next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
providers = [
    read(statement.value)
    for statement in module.body
    if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "providers"
]
json.dump({"version": version, "providers": providers[0]}, sys.stdout)

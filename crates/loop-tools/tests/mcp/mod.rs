//! MCP servers that others have published: the reference servers, over standard input and output and over HTTP.

mod cost;
mod over_http;
mod over_pipes;
mod world;

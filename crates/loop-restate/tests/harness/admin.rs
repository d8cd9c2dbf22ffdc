//! What the server knows of its invocations, as its admin API tells by SQL.

use serde_json::{Value, json};

use super::server::Server;

impl Server {
    /// The rows that a query returns.
    pub async fn rows(&self, query: &str) -> Vec<Value> {
        let url = format!("{}/query", self.admin());
        let http = loop_llm::http::own_http_client_for(&url.parse().unwrap()).unwrap();
        let request =
            http.post(&url).header("content-type", "application/json").header("accept", "application/json");
        let response = request.body(json!({"query": query}).to_string()).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{query}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["rows"].as_array().unwrap().clone()
    }

    /// Ends an invocation as an operator does. Whether it was there.
    pub async fn kill_invocation(&self, id: &str) -> bool {
        let url = format!("{}/invocations/{id}/kill", self.admin());
        let http = loop_llm::http::own_http_client_for(&url.parse().unwrap()).unwrap();
        http.patch(&url).send().await.unwrap().status().is_success()
    }
}

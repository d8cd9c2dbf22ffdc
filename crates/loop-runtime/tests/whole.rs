//! A whole run, from the work item to the outcome, without a network.

use crate::common;

use loop_runtime::{StopReason, models::Offline};

#[tokio::test]
async fn the_offline_model_follows_names_from_the_item_to_the_end() {
    let outcome = common::runner(Offline::new()).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    assert_eq!(outcome.totals.passes, 2);
}

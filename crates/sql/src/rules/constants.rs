//! Constants of a query or a condition, as they take memory.
//!
//! What is constant is worked out when a text is planned, so `repeat('x', 300000000)` is 300 MB in the plan,
//! and may stand there many times. They count in the memory of the query, and in that of a condition.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use parking_lot::Mutex;

use crate::trees::{each_expression, each_part};

/// The bytes of all constants in an expression.
pub fn constant_bytes(expr: &Expr) -> Result<usize> {
    let mut bytes = 0;
    each_part(expr, &mut |part| {
        if let Expr::Literal(value, _) = part {
            bytes += value.size();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// Holds a reservation for the constants of a plan, as they are after each pass of the optimizer.
#[derive(Debug)]
pub struct CountedConstants {
    reservation: Mutex<MemoryReservation>,
}

impl CountedConstants {
    pub fn new(memory: &Arc<dyn MemoryPool>) -> CountedConstants {
        let reservation = MemoryConsumer::new("constants").register(memory);
        CountedConstants { reservation: Mutex::new(reservation) }
    }
}

impl OptimizerRule for CountedConstants {
    fn name(&self) -> &str {
        "counted_constants"
    }

    /// Changes nothing. `ResourcesExhausted` if the constants need more than there is.
    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut bytes = 0;
        each_expression(&plan, &mut |expr| {
            bytes += constant_bytes(expr)?;
            Ok(())
        })?;
        self.reservation.lock().try_resize(bytes)?;
        Ok(Transformed::no(plan))
    }
}

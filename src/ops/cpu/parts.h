// The reference of an operator whose elements do not depend on each other, by parts on several threads: of types that the expression
// language does not compute in.
#pragma once

#include <memory>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Adds "cpu", "parts" for a node of one output, whose inputs have one element or those of the output, dense and row-major. `ns`: what
/// an element takes, about.
void offer_parts(const BoundNode& node, double ns, const Machine& machine, Offer& offer);

}  // namespace smelt::ops

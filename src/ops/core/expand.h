// What the fused operators are in standard ONNX operators: their function bodies in a plan file, and the meaning that their
// references are tested against.
#pragma once

#include "graph/graph.h"

namespace smelt::ops {

/// The body of ai.smelt node `n`. Its inputs are those of the node that are present, in order; its outputs all of the node's that
/// are present. Everything that is a number is a constant of the body; the operators are those of opset 18 and later. Types must
/// be known; shapes are read only where the body depends on them: ranks, head counts and the last extent of attention and
/// rotary embedding. Throws Error that names the node where one is missing.
Graph expand(const Graph& g, NodeId n);

}  // namespace smelt::ops

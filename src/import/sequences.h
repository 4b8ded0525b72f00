// The parts of resolve_sequences().
#pragma once

#include "import/node_writer.h"
#include "import/sequence_values.h"

namespace smelt::importer {

/// The body of a SequenceMap once for each item of `first`, its first input; notes the items that it gives. Its initializers are
/// shared. Nothing where other inputs are not known.
void unroll_map(const onnx::NodeProto& n, const Known& first, Scope& scope, NodeWriter& writer);
/// A Loop of known length that carries sequences is its body once for each turn; what that makes of them a next round finds. False
/// where it stays.
bool unroll_loop(const onnx::NodeProto& n, const Scope& scope, const Loaded& model, NodeWriter& writer);
/// A Loop that appends to sequences stacks what it appends; notes the stacks. False where it appends to none.
bool stack_appends(const onnx::NodeProto& n, const std::vector<Scope>& bodies, Scope& scope, NodeWriter& writer);
/// Notes the stack of a SplitToSequence whose parts have one element each; the node stays until nothing reads it.
bool stack_split(const onnx::NodeProto& n, Scope& scope, NodeWriter& writer);
/// Replaces what reads a stacked sequence. False where it stays.
bool read_stack(const onnx::NodeProto& n, const std::string& stack, const Scope& scope, NodeWriter& writer);
/// Graph outputs that are sequences of known items, or stacked ones, become outputs of these; whether there were any.
bool replace_sequence_outputs(Loaded& model, const Scope& scope, NodeWriter& writer);
/// Takes out what only made sequences that nothing reads any more; whether there was anything.
bool drop_unread_sequences(onnx::GraphProto& top);

}  // namespace smelt::importer

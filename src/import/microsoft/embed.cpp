// EmbedLayerNormalization and its 8-bit form: the embeddings of words, positions and segments, added and normalised.
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

/// Rows of a table for ids; in 8 bits the rows are dequantised, not the table.
using Rows = std::function<Name(Call&, int table, const Name& ids)>;

struct Inputs {
  int mask, position_ids;  // -1: the operator has none
  Name gamma, beta;
};

void embed(Call& c, const Rows& rows, const Inputs& in) {
  const Name ids = c.input(0);
  Name at_position;
  if (in.position_ids >= 0 && c.has(in.position_ids))
    at_position = rows(c, 3, c.input(in.position_ids));
  else
    at_position = rows(c, 3, positions(c, extent_of(c, ids, 1)));
  Name sum = c.before("Add", {rows(c, 2, ids), at_position});
  if (c.has(1) && c.has(4)) sum = c.before("Add", {sum, rows(c, 4, c.input(1))});
  if (c.has(in.mask)) {
    const Name set = c.before("Equal", {c.input(in.mask), c.scalar(c.element_type(in.mask), 1)});
    const Name ones = c.before("Cast", {set}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT32})});
    if (c.wants(1)) c.after("ReduceSum", {ones, c.constant({1})}, c.node.output(1), {MakeAttribute("keepdims", int64_t{0})});
  } else if (c.wants(1)) {
    const Name zeros = c.before("ConstantOfShape", {extent_of(c, ids, 0)});
    c.after("Cast", {zeros}, c.node.output(1), {MakeAttribute("to", int64_t{onnx::TensorProto::INT32})});
  }
  c.give(2, sum);
  const float epsilon = c.number("epsilon", 1e-12f);
  c.become("LayerNormalization", {sum, in.gamma, in.beta},
           {MakeAttribute("axis", int64_t{-1}), MakeAttribute("epsilon", epsilon)});
}

}  // namespace

// input_ids, segment_ids?, word, position, segment?, gamma, beta, mask?, position_ids? → y, mask_index?, sum?
void embed_layer_normalization(Call& c) {
  embed(c,
        [](Call& call, int table, const Name& ids) {
          return call.before("Gather", {call.input(table), ids});
        },
        {7, 8, c.input(5), c.input(6)});
}

// The same up to the mask; then the scales of word, position, segment, gamma and beta, and their zero points
void quantized_embed_layer_normalization(Call& c) {
  const auto dequantized = [](Call& call, int i, const Name& x) {
    return call.before("DequantizeLinear", {x, call.input(i + 6), call.input(i + 11)});
  };
  const Name gamma = dequantized(c, 5, c.input(5)), beta = dequantized(c, 6, c.input(6));
  embed(c,
        [&](Call& call, int table, const Name& ids) {
          return dequantized(call, table, call.before("Gather", {call.input(table), ids}));
        },
        {7, -1, gamma, beta});
}

}  // namespace smelt::importer::microsoft

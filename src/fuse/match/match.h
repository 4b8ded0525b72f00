// What matchers ask of a graph (constants, axes, who reads what) and what applying a match has in common: putting one
// fused node in the place of many.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "fuse/match/rewrite.h"
#include "graph/fused.h"
#include "ops/core/real_types.h"

namespace smelt::fuse {

/// True when v's producer is the operator; the producer's id in `node`.
bool made_by(const Graph& g, ValueId v, std::string_view op, NodeId* node = nullptr, std::string_view domain = onnx_domain);

/// The value of a constant of one element (any rank), as a double; nothing for other values.
std::optional<double> scalar(const Graph& g, ValueId v);
/// Equal up to what the type can tell apart: one unit in the last place, times `slack` where several constants were multiplied.
bool close(double found, double expected, DType type, double slack = 1);
/// A constant of one element that is `expected` in its own type's precision.
bool is_scalar(const Graph& g, ValueId v, double expected);

/// The two inputs of a commutative node when one is a constant of one element: (constant, other input's value).
std::optional<std::pair<double, ValueId>> constant_operand(const Graph& g, NodeId n);
/// The other input of a two-input node that reads v; none when it does not read v, or reads it twice.
ValueId other_input(const Graph& g, NodeId n, ValueId v);

/// The constant integers behind an attribute or, where it moved there in later opsets, an input; nothing when computed.
std::optional<std::vector<int64_t>> ints(const Graph& g, NodeId n, const std::string& attr, size_t input);
/// Rank of a value; -1 when it is not known.
int rank(const Graph& g, ValueId v);
/// True when the sorted axes (negative ones allowed) are the last ones of a value of this rank (-1: not known); the number of
/// them in `count`.
bool are_trailing(std::vector<int64_t> axes, int rank, int* count);
/// Whether a float attribute (ONNX's are f32) holds the number exactly.
inline bool fits_attribute(double x) { return static_cast<double>(static_cast<float>(x)) == x; }
using ops::is_real;

/// The one reader of v. Otherwise a refusal: v is a graph output, is read more than once, or is not read.
Result<NodeId> reader_of(const Graph& g, ValueId v);
/// Whether anything but `nodes` uses what they compute, apart from `results`: the refusal if so.
std::optional<Refusal> escapes(const Graph& g, std::span<const NodeId> nodes, std::initializer_list<ValueId> results);
/// True when v, or what it is computed from, depends on `from`'s outputs.
bool depends_on(const Graph& g, ValueId v, NodeId from);

/// Sorts nodes by topological order (by following inputs among them), without duplicates.
std::vector<NodeId> in_order(const Graph& g, std::vector<NodeId> nodes);
/// Removes `nodes` (in topological order) and adds `fused`, whose outputs are values they computed. It takes the last one's
/// name and place, and stands for the sources of all.
NodeId replace(Graph& g, const std::vector<NodeId>& nodes, Node fused);
/// The match that is exactly that.
Match replacement(const std::vector<NodeId>& nodes, Node fused, std::string form = {});
/// "mask + causal".
std::string joined(std::span<const std::string_view> parts);
/// A node of domain ai.smelt; version 1.
Node fused_node(std::string op, std::vector<ValueId> inputs, std::vector<ValueId> outputs);

/// "'Mul_3' (Mul)" and "2 readers", for details.
inline std::string readers_text(size_t n) { return fmt::format("{} reader{}", n, n == 1 ? "" : "s"); }

}  // namespace smelt::fuse

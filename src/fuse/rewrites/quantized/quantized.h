// What the rewrites of quantized models share: integer tensors behind DequantizeLinear, and their scales.
#pragma once

#include <optional>
#include <span>

#include "fuse/match/match.h"

namespace smelt::fuse {

/// real = (x - zero_point) * scale
struct Dequantized {
  NodeId node;                   // the DequantizeLinear
  ValueId x, scale, zero_point;  // zero_point may be left out
};

/// Of what a tensor's 8 bits are: i8 and u8, or f8e4m3fn.
enum class EightBits : uint8_t { integers, floats };

/// The 8-bit tensor behind v, with one scale or, where `channel_axis` is not negative, with one for each index of that axis.
/// Refusal when v is something else, has blocks or a scale for each index of another axis, or is of another width.
Result<Dequantized> dequantized(const Graph& g, ValueId v, int64_t channel_axis = -1, EightBits bits = EightBits::integers);

/// A convolution's bias as numbers of the type that it has, [M, 1, …] for an image of this rank; not valid when there is none. Refusal
/// where it is computed.
Result<Tensor> bias_numbers(const Graph& g, NodeId conv, int64_t rank);

/// Elements of a value of known shape; -1 when it is not known, or there is no value.
int64_t size_of(const Graph& g, ValueId v);

/// A refusal of the first of a node's inputs in these places that is not one number; nothing where all are.
std::optional<Refusal> several_numbers(const Graph& g, NodeId n, std::span<const size_t> places);

/// The zero point, or none where it is 0 throughout: operators need not read it then, and not every runtime takes one for each
/// channel.
ValueId needed_zero_point(const Graph& g, ValueId zero_point);

/// The same scale and zero point: the same values, or equal constants. Both may be none.
bool same_constant(const Graph& g, ValueId a, ValueId b);

/// A QLinear operator as it is defined: QuantizeLinear(plain(unquantized inputs, DequantizeLinear(operand)…)). Each operand, and
/// the result, has its scale and zero point in the two places behind it (of the result: from `result` on).
Match in_parts(NodeId n, std::string_view plain, const std::vector<size_t>& operands, size_t result, size_t unquantized = 0);

}  // namespace smelt::fuse

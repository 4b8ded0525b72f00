// The types of operands that only tensor cores read, and what operands are summed in.
#pragma once

#include "common/types.cuh"

/// What operands of a type are summed in, and whether integers have a sign.
template <class T> struct HopperSums { using Type = float; };
template <> struct HopperSums<i8> { using Type = i32; static constexpr bool has_sign = true; };
template <> struct HopperSums<u8> { using Type = i32; static constexpr bool has_sign = false; };
/// 8-bit floats of 4 bits of exponent and 3 of mantissa, as ONNX's FLOAT8E4M3FN; only tensor cores read them.
struct e4m3 { u8 bits; };
template <class T> struct IsE4m3 { static constexpr bool value = false; };
template <> struct IsE4m3<e4m3> { static constexpr bool value = true; };

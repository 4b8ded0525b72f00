// Which element types ONNX's schemas allow.
#pragma once

#include <onnx/defs/schema.h>

#include <map>
#include <string>
#include <vector>

#include "smelt/dtype.h"

namespace smelt::ops::test {

/// "tensor(float)" → f32; undefined where smelt has no such type.
inline DType dtype_of(const std::string& text) {
  static const std::map<std::string, DType> known = {
      {"tensor(float)", DType::f32},     {"tensor(double)", DType::f64},   {"tensor(float16)", DType::f16},
      {"tensor(bfloat16)", DType::bf16}, {"tensor(int8)", DType::i8},      {"tensor(int16)", DType::i16},
      {"tensor(int32)", DType::i32},     {"tensor(int64)", DType::i64},    {"tensor(uint8)", DType::u8},
      {"tensor(uint16)", DType::u16},    {"tensor(uint32)", DType::u32},   {"tensor(uint64)", DType::u64},
      {"tensor(bool)", DType::boolean},  {"tensor(string)", DType::string}};
  const auto found = known.find(text);
  return found == known.end() ? DType::undefined : found->second;
}

/// Those of smelt's types that a formal parameter's type, "T1" or "tensor(float)", stands for.
inline std::vector<DType> allowed_types(const onnx::OpSchema& schema, const std::string& formal) {
  std::vector<DType> allowed;
  for (const auto& t : schema.typeConstraintParams())
    if (t.type_param_str == formal)
      for (const auto& text : t.allowed_type_strs)
        if (const DType d = dtype_of(text); d != DType::undefined) allowed.push_back(d);
  if (const DType d = dtype_of(formal); d != DType::undefined) allowed.push_back(d);
  return allowed;
}

}  // namespace smelt::ops::test

#include "ops/core/program.h"

#include "base/error.h"
#include "expr/cpu.h"
#include "ops/core/loops.h"

namespace smelt::ops {

std::vector<Tensor> evaluate_program(const expr::Program& p, std::span<const Tensor> inputs, const Shape& shape) {
  if (static_cast<int>(inputs.size()) != p.input_count())
    fail("a program of {} inputs was given {}", p.input_count(), inputs.size());
  std::vector<Shape> strides;
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType wanted = p.type(static_cast<expr::Ref>(i));
    if (inputs[i].type() != wanted)
      fail("the program's in{} is {}, but its operand is {}", i, name(wanted), name(inputs[i].type()));
    strides.push_back(broadcast_strides(inputs[i].shape(), shape));
    bytes.push_back(smelt::bytes(wanted, 1));
  }
  std::vector<Tensor> outputs;
  for (expr::Ref r : p.outputs()) {
    outputs.push_back(Tensor::empty(p.type(r), shape));
    strides.push_back(smelt::strides(shape));
    bytes.push_back(smelt::bytes(p.type(r), 1));
  }
  const LoopNest nest(shape, strides);
  const expr::Evaluator evaluator(p, simd::widest(), nest.run());
  Tensor scratch = Tensor::empty(DType::u8, {evaluator.scratch()});
  std::vector<expr::Operand> operands(inputs.size());
  std::vector<void*> out(outputs.size());
  nest.for_each_run([&](std::span<const int64_t> offsets) {
    for (size_t i = 0; i < inputs.size(); ++i)
      operands[i] = {static_cast<const char*>(inputs[i].raw()) + offsets[i] * bytes[i], nest.stride(i)};
    for (size_t o = 0; o < outputs.size(); ++o)
      out[o] = static_cast<char*>(outputs[o].raw()) + offsets[inputs.size() + o] * bytes[inputs.size() + o];
    evaluator.run(nest.run(), operands, out, scratch.raw());
  });
  return outputs;
}

}  // namespace smelt::ops

#include "ops/pointwise/channel_tables.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

#include "expr/cpu.h"
#include "expr/program_copy.h"
#include "ops/core/strides.h"

namespace smelt::ops {
namespace {

// A run of fewer elements takes as long by the loops; a table is made in the time of 256 elements by these, for each new shape.
constexpr int64_t shortest_run = 64, fewest_of_table = 256, most_tables = 2048;
constexpr size_t most_inputs = 8;  // that go through tables

bool varies(const Shape& strides) {
  return std::ranges::any_of(strides, [](int64_t s) { return s != 0; });
}

}  // namespace

std::optional<ChannelTables> ChannelTables::match(const PointwiseProblem& p) {
  const size_t inputs = p.present.size();
  if (p.constants.size() != inputs || elements(p.shape) == 0) return std::nullopt;
  const Views views = merged(p.shape, p.strides, inputs);
  if (views.extents.back() < shortest_run) return std::nullopt;
  std::vector<bool> known(inputs);
  bool any = false;
  for (size_t i = 0; i < inputs; ++i) {
    known[i] = p.constants[i].valid() && views.strides[i].back() == 0;
    any |= known[i] && varies(p.strides[i]);
  }
  if (!any) return std::nullopt;

  ChannelTables t;
  for (expr::BytePart& cut : expr::byte_parts(p.program, known)) {
    const auto from = static_cast<size_t>(cut.from);
    if (cut.known.empty() || from >= inputs || views.strides[from].back() != 1) continue;
    Part part{std::move(cut), Shape(p.shape.size(), 0)};
    for (size_t a = p.shape.size(); a-- > 0;) {
      const auto differs = [&](expr::Ref r) { return p.strides[static_cast<size_t>(r)][a] != 0; };
      if (p.shape[a] == 1 || !std::ranges::any_of(part.cut.known, differs)) continue;
      part.steps[a] = part.count;
      part.count *= p.shape[a];
    }
    if (part.count > most_tables || part.count * fewest_of_table > elements(p.shape)) continue;
    t.parts_.push_back(std::move(part));
    if (t.parts_.size() == most_inputs) break;
  }
  if (t.parts_.empty()) return std::nullopt;
  t.shape_ = p.shape;
  t.constants_ = p.constants;
  t.strides_ = p.strides;
  t.cut(p);
  return t;
}

void ChannelTables::cut(const PointwiseProblem& p) {
  const expr::Program& program = p.program;
  const auto part_of = [&](expr::Ref r) { return std::ranges::find(parts_, r, [](const Part& part) { return part.cut.to; }); };
  std::vector<bool> wanted(program.code().size(), false);
  for (expr::Ref r : program.outputs()) wanted[static_cast<size_t>(r)] = true;
  for (size_t k = wanted.size(); k-- > 0;) {
    if (!wanted[k] || part_of(static_cast<expr::Ref>(k)) != parts_.end()) continue;
    for (expr::Ref a : program.code()[k].args)
      if (a >= 0) wanted[static_cast<size_t>(a)] = true;
  }
  rest_.shape = p.shape;
  rest_.fused_multiply_add = p.fused_multiply_add;
  expr::ProgramCopy copy(program);
  const auto reads = [&](expr::Ref r, size_t input) {
    copy.input(r);
    rest_.strides.push_back(p.strides[input]);
    rest_.present.push_back(p.present[input]);
    rest_.alignments.push_back(p.alignments[input]);
  };
  for (const Part& part : parts_) reads(part.cut.to, static_cast<size_t>(part.cut.from));
  for (size_t k = 0; k < p.present.size(); ++k)
    if (wanted[k]) reads(static_cast<expr::Ref>(k), k);
  for (size_t k = p.present.size(); k < wanted.size(); ++k)
    if (const auto r = static_cast<expr::Ref>(k); wanted[k] && part_of(r) == parts_.end()) copy.append(r);
  for (expr::Ref r : program.outputs()) copy.program.output(copy[r]);
  rest_.program = std::move(copy.program);
  for (size_t k = p.present.size(); k < p.strides.size(); ++k)
    rest_.strides.push_back(p.strides[k]), rest_.alignments.push_back(p.alignments[k]);
  for (const Part& part : parts_) rest_.strides.push_back(part.steps);
}

std::vector<InputTables> ChannelTables::make() const {
  constexpr int64_t bytes = 256;
  std::vector<uint8_t> all(bytes);
  std::iota(all.begin(), all.end(), uint8_t{0});
  std::vector<InputTables> made;
  for (const Part& part : parts_) {
    const expr::Evaluator evaluator(part.cut.program, simd::widest(), bytes);
    std::vector<uint8_t> scratch(static_cast<size_t>(evaluator.scratch()) + 64);
    void* memory = scratch.data();
    size_t room = scratch.size();
    std::align(64, 1, memory, room);
    auto tables = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(part.count * bytes));
    std::vector<expr::Operand> in(1 + part.cut.known.size());
    in[0] = {all.data(), 1};
    for (int64_t i = 0; i < part.count; ++i) {
      for (size_t k = 0; k < part.cut.known.size(); ++k) {
        const auto input = static_cast<size_t>(part.cut.known[k]);
        int64_t offset = 0;
        for (size_t a = 0; a < shape_.size(); ++a)
          if (part.steps[a] > 0) offset += i / part.steps[a] % shape_[a] * strides_[input][a];
        in[1 + k] = {static_cast<const char*>(constants_[input].raw()) + offset * std::max(bits(constants_[input].type()) / 8, 1),
                     0};
      }
      void* out = tables->data() + i * bytes;
      evaluator.run(bytes, in, std::span(&out, 1), memory);
    }
    made.push_back({made.size(), std::move(tables)});
  }
  return made;
}

}  // namespace smelt::ops

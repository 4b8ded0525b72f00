// ONNX's node cases again, with inputs of all combinations of types that the operator's schema allows, and with numbers from the ends
// of their ranges: the kernels of the processor compute what the reference does.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "conformance/candidates.h"
#include "ops/core/reference_kernel.h"
#include "ops/schema_types.h"
#include "support/paths.h"

namespace smelt::conformance {
namespace {

using Random = std::mt19937;

/// Sizes of results, which a number from the end of a range would make as large as can be.
const std::set<std::string> sizes = {"DFT", "STFT", "CenterCropPad", "OneHot", "Range", "Tile", "Expand", "ConstantOfShape"};

/// The types that the schema's variables may be, where inputs of the node have two and more.
std::map<std::string, std::vector<DType>> variables_of(const Node& n, std::span<const Tensor> inputs) {
  std::map<std::string, std::vector<DType>> allowed;
  const auto* schema = n.domain.empty() ? onnx::OpSchemaRegistry::Schema(n.op, n.opset, "") : nullptr;
  if (!schema) return {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid() || schema->inputs().empty()) continue;
    const std::string formal = schema->inputs()[std::min(i, schema->inputs().size() - 1)].GetTypeStr();
    std::vector<DType> types = ops::test::allowed_types(*schema, formal);
    std::erase(types, DType::string);
    if (types.size() > 1) allowed[formal] = types;
  }
  return allowed.size() > 1 ? allowed : std::map<std::string, std::vector<DType>>();
}

/// One element of integers becomes a power of two, or what is beside it.
Tensor with_an_edge(const Tensor& t, Random& random) {
  if (!is_integer(t.type()) || t.size() < 2) return t;
  std::vector<int64_t> all = t.to_ints();
  all[random() % all.size()] = static_cast<int64_t>((uint64_t{1} << random() % 64) + random() % 3 - 1);
  return Tensor::of<int64_t>(t.shape(), all).cast(t.type());
}

std::vector<Tensor> with_types(const Node& n, std::span<const Tensor> inputs, const std::map<std::string, DType>& chosen,
                               Random& random) {
  const auto& schema = *onnx::OpSchemaRegistry::Schema(n.op, n.opset, "");
  const bool edges = !sizes.contains(n.op) && random() % 2 == 0;
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto type = chosen.find(schema.inputs()[std::min(i, schema.inputs().size() - 1)].GetTypeStr());
    const bool takes = inputs[i].valid() && type != chosen.end() && inputs[i].type() != DType::string;
    const Tensor t = takes ? inputs[i].cast(type->second) : inputs[i];
    result.push_back(takes && edges ? with_an_edge(t, random) : t);
  }
  return result;
}

/// How many kernels ran; what they found goes to `wrong`. `constants`: inputs but the first are known when kernels are made.
int try_types(const Node& n, std::span<const Tensor> inputs, bool constants, std::vector<std::string>& wrong) {
  std::vector<Tensor> expected;
  try {
    expected = ops::evaluate(n, inputs);
  } catch (const Error&) {
    return 0;  // the rule refuses these types or these numbers
  }
  if (has_text(expected)) return 0;
  ops::BoundNode b = bound_node(n, inputs, expected);
  if (!constants)
    for (ops::BoundTensor& t : b.inputs) t.constant = Tensor();
  ops::Machine machine;
  machine.threads = 2;
  machine.isa = "avx2";
  ops::Offer offer;
  try {
    offer = ops::offer(b, machine);
  } catch (const std::exception& e) {
    wrong.push_back(n.op + " is not offered: " + e.what());
  }
  int ran = 0;
  for (const ops::Candidate& c : offer.candidates) {
    if (c.tactic == "reference") continue;
    try {
      if (std::string why = run_candidate(c, inputs, expected); !why.empty()) wrong.push_back(offer.problem + ": " + why);
    } catch (const std::exception& e) {
      wrong.push_back(offer.problem + ": " + c.tactic + ": " + e.what());
    }
    ++ran;
  }
  return ran;
}

TEST(MixedTypes, kernels_compute_what_the_references_do_in_every_combination_of_types) {
  const std::filesystem::path root = build_dir() / "conformance";
  if (!std::filesystem::exists(root / "node")) GTEST_SKIP() << "the cases are not written yet: run the conformance tests";
  constexpr int times = 60;
  std::map<std::string, int> ran;
  for (const Case& c : list_cases(root)) {
    if (!c.name.starts_with("node/")) continue;
    Random random(7);
    std::vector<std::string> wrong;
    const Visit visit = [&](const Node& n, std::span<const Tensor> inputs, const std::vector<Tensor>&) {
      const auto variables = variables_of(n, inputs);
      if (variables.empty() || needs_no_kernel(n) || is_dynamic(n) || draws_anew(n)) return;
      for (int i = 0; i < times; ++i) {
        std::map<std::string, DType> chosen;  // all of them, or one
        const size_t one = random() % variables.size();
        size_t at = 0;
        for (const auto& [variable, types] : variables)
          if (i % 4 < 2 || at++ == one) chosen[variable] = types[random() % types.size()];
        ran[n.op] += try_types(n, with_types(n, inputs, chosen, random), i % 2 == 0, wrong);
      }
    };
    try {
      walk_nodes(c, visit);
    } catch (const std::exception& e) {
      std::cout << c.name << " does not run: " << e.what() << "\n";
    }
    for (const std::string& w : wrong) ADD_FAILURE() << c.name << ": " << w;
  }
  for (const auto& [op, count] : ran) std::cout << ' ' << op << ' ' << count;
  std::cout << '\n';
  for (const char* op : {"Pow", "QuantizeLinear", "DequantizeLinear", "OneHot", "Slice", "ScatterElements"})
    EXPECT_GT(ran[op], 0) << op;
}

}  // namespace
}  // namespace smelt::conformance

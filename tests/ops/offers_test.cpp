// What holds of every offer: each refusal says why, and problems of one key have the same kernels. Over the forms that are compiled
// for GPUs, and over each of them with one tensor at a time that lies in memory otherwise or is computed; nothing runs.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <regex>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda_forms.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// The tensor as a slice of one that has an element more along an axis.
BoundTensor sliced(BoundTensor t, size_t axis) {
  BoundTensor whole = t;
  whole.strides.clear();
  ++whole.shape[axis];
  t.strides = memory_strides(whole);
  return t;
}

/// A form, and what of it was changed.
struct Variant {
  std::string what;
  Form form;
};

/// The form as it is, and with one tensor at a time changed.
std::vector<Variant> variants(const Form& f) {
  std::vector<Variant> list{{"as it is", f}};
  for (const bool outputs : {false, true}) {
    const std::vector<BoundTensor>& tensors = outputs ? f.bound.outputs : f.bound.inputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const BoundTensor& t = tensors[i];
      if (t.type == DType::undefined) continue;
      const std::string name = fmt::format("{} {}", outputs ? "output" : "input", i);
      const auto add = [&](std::string what, BoundTensor changed) {
        Variant v{name + " " + std::move(what), f};
        (outputs ? v.form.bound.outputs : v.form.bound.inputs)[i] = std::move(changed);
        list.push_back(std::move(v));
      };
      if (t.constant.valid()) {
        BoundTensor computed = t;
        computed.constant = {};
        add("computed", computed);
        continue;
      }
      BoundTensor narrow = t;
      narrow.alignment = std::max<int64_t>(1, bytes(t.type, 1));
      add("aligned to an element", narrow);
      for (size_t axis = 0; axis < t.shape.size() && bits(t.type) >= 8; ++axis)
        add(fmt::format("sliced along {}", axis), sliced(t, axis));
    }
  }
  return list;
}

Machine processor() {
  Machine machine;
  machine.threads = 2;
  machine.isa = "avx2";
  return machine;
}

/// A GPU whose compiler only notes the sources.
Machine noting_gpu(std::string_view arch, std::string& sources) {
  const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
  gpu->cubins = std::make_shared<device::cuda::CubinStore>(
      std::filesystem::path(), [&sources](const device::cuda::Source& source, std::string_view) {
        sources += fmt::format("{} {}\n", source.code, fmt::join(source.options, " "));
        device::cuda::Cubin cubin{.bytes = "none", .kernels = {}};
        static const std::regex entry("__global__[^{;]*?(\\w+)\\(const|__global__[^{;]*?(\\w+)\\(");
        for (std::sregex_iterator at(source.code.begin(), source.code.end(), entry), end; at != end; ++at)
          cubin.kernels.push_back({.entry = (*at)[1].matched ? (*at)[1].str() : (*at)[2].str()});
        return cubin;
      });
  Machine machine;
  machine.gpu = gpu;
  return machine;
}

/// Nothing where the node cannot be as this variant has it.
std::optional<Offer> offered(Form& f, const Machine& machine) {
  f.bound.node = &f.node;
  try {
    return offer(f.bound, machine);
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(Offers, refuse_each_tactic_for_a_reason_said_once) {
  std::string sources;
  std::map<Reason, int> seen;
  for (const Machine& machine : {processor(), noting_gpu("sm_75", sources), noting_gpu("sm_90a", sources)}) {
    for (const Form& form : all_forms()) {
      for (Variant& v : variants(form)) {
        const auto o = offered(v.form, machine);
        if (!o) continue;
        SCOPED_TRACE(o->problem + ", " + v.what);
        std::set<std::pair<std::string, std::string>> said;
        for (const RefusedTactic& r : o->refused) {
          EXPECT_FALSE(r.why.text.empty()) << r.tactic;
          EXPECT_TRUE(said.emplace(r.tactic, r.why.text).second) << r.tactic << ": " << r.why.text;
          EXPECT_EQ(r.why.blocker, NodeId::none) << r.tactic;
          ++seen[r.why.reason];
        }
      }
    }
  }
  for (const Reason r : {Reason::wrong_type, Reason::wrong_layout, Reason::wrong_machine, Reason::not_constant})
    EXPECT_GT(seen[r], 0) << name(r);
}

}  // namespace
}  // namespace smelt::ops

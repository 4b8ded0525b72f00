// Every operator, in every version, on inputs of any rank, with values and attributes as odd as a damaged model can have them: an
// Error, or outputs. Constant folding runs operators on whatever a model holds. Each runs in a process of its own.
#include <sys/time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/memory.h"
#include "ops/one_node.h"
#include "ops/schema_types.h"
#include "support/child.h"
#include "support/odd.h"
#include "support/schemas.h"

namespace smelt::ops::test {
namespace {

using smelt::test::Odd;
using Kind = onnx::AttributeProto::AttributeType;

struct Call {
  Node node;
  std::vector<Tensor> inputs;
};

class Calls {
 public:
  Calls(const onnx::OpSchema& schema, unsigned seed) : schema_(schema), odd_(seed) {}

  Call next() {
    chosen_.clear();
    base_.clear();
    for (size_t rank = odd_.below(5); rank > 0; --rank) base_.push_back(extent());
    Call call;
    const size_t inputs = count(schema_.min_input(), schema_.max_input());
    call.node = make_node(schema_.Name(), inputs, {}, count(schema_.min_output(), schema_.max_output()), schema_.domain(),
                          schema_.SinceVersion());
    for (size_t i = 0; i < inputs; ++i) {
      const auto& formal = schema_.inputs()[std::min(i, schema_.inputs().size() - 1)];
      const bool left_out = formal.GetOption() == onnx::OpSchema::Optional && odd_.one_in(3);
      call.inputs.push_back(left_out ? Tensor() : tensor(type_of(formal.GetTypeStr()), shape()));
      if (left_out) call.node.inputs[i] = ValueId::none;
    }
    for (const auto& [name, a] : schema_.attributes())
      if (a.required ? !odd_.one_in(16) : odd_.one_in(2)) set(call.node.attrs, name, a.type);
    return call;
  }

 private:
  int64_t extent() { return odd_.one_in(8) ? 0 : static_cast<int64_t>(1 + odd_.below(3)); }
  size_t count(int least, int most) {
    return odd_.below(static_cast<size_t>(std::min(most, least + 3) - least + 1)) + static_cast<size_t>(least);
  }
  /// Mostly small, so that sizes that are worked out from them stay small.
  int64_t number() { return odd_.one_in(8) ? odd_.number() : static_cast<int64_t>(odd_.below(8)) - 2; }

  /// Inputs that belong together often have one shape or broadcast to it.
  Shape shape() {
    Shape s = base_;
    if (odd_.one_in(3)) {
      s.clear();
      for (size_t rank = odd_.below(5); rank > 0; --rank) s.push_back(extent());
    } else if (odd_.one_in(4) && !s.empty()) {
      s[odd_.below(s.size())] = extent();
    }
    return s;
  }

  DType type_of(const std::string& formal) {
    if (odd_.one_in(16)) return odd_.one_in(2) ? DType::f32 : DType::i64;
    if (chosen_.contains(formal)) return chosen_[formal];
    const std::vector<DType> allowed = allowed_types(schema_, formal);
    const DType any = allowed.empty() ? DType::f32 : allowed[odd_.below(allowed.size())];
    return chosen_[formal] = any;
  }

  Tensor tensor(DType type, Shape s) {
    if (type == DType::string) {
      std::vector<std::string> words;
      for (int64_t i = elements(s); i > 0; --i) words.push_back(odd_.one_in(2) ? "1" : odd_.one_in(2) ? "" : "a b");
      return Tensor::of_strings(std::move(s), std::move(words));
    }
    std::vector<int64_t> values;
    for (int64_t i = elements(s); i > 0; --i) values.push_back(number());
    return Tensor::of<int64_t>(std::move(s), values).cast(type);
  }

  std::string word() {
    static constexpr const char* words[] = {
        "",    "SAME_UPPER", "SAME_LOWER", "VALID",  "linear", "cubic", "nearest",       "reflect", "wrap", "edge",
        "max", "avg",        "ij,jk->ik",  "...i->", "sum",    "mul",   "bidirectional", "TF",      ",->",  "align_corners"};
    return words[odd_.below(std::size(words))];
  }

  void set(Attributes& attrs, const std::string& name, Kind kind) {
    const auto list = [&](auto element) {
      std::vector<decltype(element())> out;
      for (size_t n = odd_.one_in(4) ? odd_.below(6) : base_.size(); n > 0; --n) out.push_back(element());
      return out;
    };
    switch (kind) {
      case onnx::AttributeProto::INT: attrs[name] = number(); return;
      case onnx::AttributeProto::FLOAT: attrs[name] = static_cast<float>(number()); return;
      case onnx::AttributeProto::STRING: attrs[name] = word(); return;
      case onnx::AttributeProto::INTS: attrs[name] = list([&] { return number(); }); return;
      case onnx::AttributeProto::FLOATS: attrs[name] = list([&] { return static_cast<float>(number()); }); return;
      case onnx::AttributeProto::STRINGS: attrs[name] = list([&] { return word(); }); return;
      case onnx::AttributeProto::TENSOR: attrs[name] = tensor(odd_.one_in(2) ? DType::f32 : DType::i64, shape()); return;
      default: return;
    }
  }

  const onnx::OpSchema& schema_;
  Odd odd_;
  Shape base_;
  std::map<std::string, DType> chosen_;
};

enum Ending { refused_all = 10, ran, threw_another, wrapped };  // nothing that a sanitizer would give

Ending try_operator(const onnx::OpSchema& schema, unsigned seed, int times) {
  smelt::test::limit_addresses(size_t{4} << 30);
  const MemoryScope results(std::make_shared<MemoryAccount>(int64_t{1} << 28));  // more takes minutes to fill
  const itimerval computing{{0, 0}, {120, 0}};  // of the processor: a busy machine gives little of it
  setitimer(ITIMER_PROF, &computing, nullptr);
  Calls calls(schema, seed);
  Ending ending = refused_all;
  for (int i = 0; i < times; ++i) {
    const Call call = calls.next();
    try {
      evaluate(call.node, call.inputs);
      ending = ran;
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {  // a result that is asked for, and larger than the limit above
    } catch (const std::exception& e) {
      fprintf(stderr, "%s: %s\n", schema.Name().c_str(), e.what());
      return threw_another;
    }
  }
  return ending;
}

/// The rule alone, of inputs that a model may declare and no machine has: their extents are large, and what is worked out from them
/// must not wrap (UndefinedBehaviorSanitizer sees where it does, and an extent below 0 shows it).
Ending try_rule(const onnx::OpSchema& schema, unsigned seed, int times) {
  static constexpr int64_t large[] = {1 << 20, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 57, int64_t{1} << 60};
  const MemoryScope results(std::make_shared<MemoryAccount>(int64_t{1} << 28));
  Calls calls(schema, seed);
  Odd odd(seed + 1);
  Ending ending = refused_all;
  for (int i = 0; i < times; ++i) {
    const Call call = calls.next();
    std::vector<TensorDesc> in, out(call.node.outputs.size());
    for (const Tensor& t : call.inputs) {
      if (!t.valid()) {
        in.emplace_back();
        continue;
      }
      in.push_back({t.type(), t.shape(), true, nullptr});
      for (int64_t& extent : in.back().shape)
        if (odd.one_in(2)) extent = large[odd.below(std::size(large))];
    }
    try {
      infer(call.node, in, out);
      ending = ran;
    } catch (const Error& e) {
      const auto wraps = [](const TensorDesc& d) {
        return std::ranges::any_of(d.shape, [](int64_t n) { return n < -(1 << 30); });
      };
      if (std::ranges::any_of(out, wraps)) {
        fprintf(stderr, "%s: %s\n", schema.Name().c_str(), e.what());
        return wrapped;
      }
    } catch (const std::exception& e) {
      fprintf(stderr, "%s: %s\n", schema.Name().c_str(), e.what());
      return threw_another;
    }
  }
  return ending;
}

/// Tries every operator in every version so many times, each in a process of its own; in all, how many were tried and how many ran.
std::pair<int, int> try_all(Ending (*attempt)(const onnx::OpSchema&, unsigned, int), int times) {
  if (const char* asked = getenv("SMELT_OPERATOR_TIMES")) times = atoi(asked);
  int tried = 0, gave_outputs = 0;
  for (const auto& schema : smelt::test::all_schemas()) {
    if (!find(schema.Name(), schema.domain())) continue;
    const int status = smelt::test::in_child([&] { return attempt(schema, static_cast<unsigned>(tried), times); });
    EXPECT_TRUE(status == ran || status == refused_all)
        << schema.domain() << "." << schema.Name() << " since " << schema.SinceVersion() << ": "
        << (status < 0 ? strsignal(-status) : "an exception that is no Error, an extent that wrapped, or a sanitizer's report");
    ++tried;
    gave_outputs += status == ran;
  }
  return {tried, gave_outputs};
}

TEST(OddInputs, are_errors_or_give_outputs) {
  const auto [tried, gave_outputs] = try_all(try_operator, 200);
  EXPECT_GT(tried, 400);
  EXPECT_GT(gave_outputs, tried * 3 / 4);  // inputs are not so odd that most operators refuse them all
}

TEST(OddInputs, of_extents_beyond_all_memory_have_no_results_whose_extents_wrap) {
  const auto [tried, gave_outputs] = try_all(try_rule, 400);
  EXPECT_GT(tried, 400);
  EXPECT_GT(gave_outputs, tried * 3 / 4);
}

}  // namespace
}  // namespace smelt::ops::test

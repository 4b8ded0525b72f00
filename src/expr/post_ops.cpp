#include "expr/post_ops.h"

#include <optional>

namespace smelt::expr {
namespace {

bool commutes(Fn fn) { return fn == Fn::add || fn == Fn::mul || fn == Fn::min || fn == Fn::max; }
bool is_binary(Fn fn) { return commutes(fn) || fn == Fn::sub || fn == Fn::div; }
bool takes_numbers(Fn fn) {
  return fn == Fn::clip || fn == Fn::leaky_relu || fn == Fn::elu || fn == Fn::swish || fn == Fn::hard_sigmoid;
}

class Matcher {
 public:
  explicit Matcher(const Program& p) : p_(p), from_in0_(p.code().size(), false) {
    for (size_t i = 0; i < from_in0_.size(); ++i) {
      from_in0_[i] = i == 0 && p.input_count() > 0;
      for (Ref a : p.code()[i].args)
        if (a >= 0 && reaches(a)) from_in0_[i] = true;
    }
  }

  Result<std::vector<PostOp>> run() {
    if (p_.outputs().size() != 1)
      return refuse(Reason::unsupported, "the program has {} outputs, a chain has one", p_.outputs().size());
    if (p_.input_count() == 0) return refuse(Reason::missing_input, "the program has no in0");
    if (p_.type(0) != DType::f32)
      return refuse(Reason::wrong_type, "in0 is {}, post-operations compute in f32", name(p_.type(0)));
    const Ref last = p_.outputs()[0];
    // Walk from the output back to in0: a step's first argument is the step before it.
    std::vector<Ref> chain;
    for (Ref at = last; at != 0;) {
      const Instruction& c = p_.code()[static_cast<size_t>(at)];
      if (c.fn == Fn::constant || c.fn == Fn::input)
        return refuse(Reason::unsupported, "the output does not come from in0 but from %{}", at);
      chain.push_back(at);
      const bool second = commutes(c.fn) && reaches(c.args[1]) && !reaches(c.args[0]);
      at = c.args[second ? 1 : 0];
    }
    Ref before = 0;
    for (auto step = chain.rbegin(); step != chain.rend(); before = *step++)
      if (auto why = match(*step, before, *step == last)) return *why;
    return std::move(ops_);
  }

 private:
  bool reaches(Ref r) const { return from_in0_[static_cast<size_t>(r)]; }

  const Instruction& code(Ref r) const { return p_.code()[static_cast<size_t>(r)]; }
  bool number(Ref r, float& to) const {
    if (code(r).fn != Fn::constant) return false;
    to = static_cast<float>(code(r).value);
    return true;
  }
  /// The index of the input that r is, or that r casts; -1 for anything else.
  int operand(Ref r) const {
    if (code(r).fn == Fn::cast) r = code(r).args[0];
    return r > 0 && code(r).fn == Fn::input ? code(r).index : -1;
  }

  std::optional<Refusal> match(Ref at, Ref before, bool is_last) {
    const Instruction& c = code(at);
    if (c.fn == Fn::cast) {
      if (is_last) return std::nullopt;
      return refuse(Reason::unsupported, "%{} rounds in the middle of the chain", at);
    }
    if (c.type != DType::f32) return refuse(Reason::wrong_type, "%{} computes in {}, post-operations in f32", at, name(c.type));
    PostOp op{PostOp::Kind::eltwise, c.fn};
    if (takes_numbers(c.fn)) {
      if (!number(c.args[1], op.alpha))
        return refuse(Reason::not_constant, "%{}: the second argument of {} is not a number", at, info(c.fn).name);
      if (c.args[2] >= 0 && !number(c.args[2], op.beta))
        return refuse(Reason::not_constant, "%{}: the third argument of {} is not a number", at, info(c.fn).name);
    } else if (is_binary(c.fn)) {
      const Ref other = c.args[0] == before ? c.args[1] : c.args[0];
      if (!number(other, op.alpha)) {
        op.kind = PostOp::Kind::binary;
        op.input = operand(other);
        if (op.input < 0)
          return refuse(Reason::unsupported, "%{} reads %{}, which is neither the step before it, an operand nor a number", at,
                        other);
      }
    } else if (info(c.fn).arity != 1) {
      return refuse(Reason::unsupported, "%{}: {} is no post-operation", at, info(c.fn).name);
    }
    ops_.push_back(op);
    return std::nullopt;
  }

  const Program& p_;
  std::vector<bool> from_in0_;  // which instructions depend on in0
  std::vector<PostOp> ops_;
};

}  // namespace

Result<std::vector<PostOp>> to_post_ops(const Program& p) { return Matcher(p).run(); }

}  // namespace smelt::expr

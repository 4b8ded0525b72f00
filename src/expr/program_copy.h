// A program made of some instructions of another one.
#pragma once

#include <vector>

#include "expr/program.h"

namespace smelt::expr {

class ProgramCopy {
 public:
  explicit ProgramCopy(const Program& p) : p_(p), moved_(p.code().size(), -1) {}
  Program program;

  /// r, any instruction, is the next input.
  void input(Ref r) { moved_[static_cast<size_t>(r)] = program.input(p_.type(r)); }
  /// r, whose arguments are there.
  void append(Ref r) {
    const Instruction& i = p_.code()[static_cast<size_t>(r)];
    Ref& to = moved_[static_cast<size_t>(r)];
    if (i.fn == Fn::constant) {
      to = program.constant(i.type, i.value);
      return;
    }
    Ref a[3];
    int arguments = 0;
    for (; arguments < 3 && i.args[arguments] >= 0; ++arguments) a[arguments] = (*this)[i.args[arguments]];
    switch (arguments) {
      case 1: to = i.fn == Fn::cast ? program.cast(a[0], i.type) : program.call(i.fn, a[0]); break;
      case 2: to = program.call(i.fn, a[0], a[1]); break;
      default: to = program.call(i.fn, a[0], a[1], a[2]); break;
    }
  }
  /// Where r is in the copy; -1: not there.
  Ref operator[](Ref r) const { return moved_[static_cast<size_t>(r)]; }

 private:
  const Program& p_;
  std::vector<Ref> moved_;
};

}  // namespace smelt::expr

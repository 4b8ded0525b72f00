// What a verb is at, on the terminal, wherever that takes longer than two seconds: a line on standard error that is written over,
// and gone at the end. Where standard error is no terminal there is none.
#pragma once

#include <string>
#include <string_view>

#include "smelt/session.h"

namespace smelt::cli {

/// Shows the line while it lives. One at a time.
class BusyLine {
 public:
  BusyLine();
  ~BusyLine();
  BusyLine(const BusyLine&) = delete;
};

/// What is done from here on: "profiling". Empty: nothing that a line should say.
void stage(std::string_view what);
/// How much of it is done, from 0 to 1.
void stage_part(double part);
/// How far a build is: in place of the stage's line, while it goes on.
void stage_build(const Progress& p);
/// Takes the line away, for what is about to be printed.
void clear_busy_line();

}  // namespace smelt::cli

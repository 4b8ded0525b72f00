#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

Case softmax(Choices& c);
Case norm(Choices& c);
Case reduction(Choices& c);
Case choice(Choices& c);
Case recurrent(Choices& c);

}  // namespace smelt::ops::scan

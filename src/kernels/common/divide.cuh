// Division by a number that the host knows at launch (common/divider.h).
#pragma once

#include "kernels/common/divider.h"

/* gateway/pipeline/upper_priv.h -- the functions that the server calls. */
#pragma once

#include "gateway/http/upper.h"

extern const struct http_upper pipeline_upper;

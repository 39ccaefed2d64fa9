/* gateway/pipeline/callbacks_priv.h -- the callbacks that the pipeline gives the server. */
#pragma once

#include "gateway/http/callbacks.h"

extern const struct http_callbacks pipeline_callbacks;

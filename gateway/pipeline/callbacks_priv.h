/* gateway/pipeline/callbacks_priv.h -- the callbacks that the pipeline gives the server. */
#pragma once

#include "gateway/http/callbacks.h"

/** For clients; and for gateways of other regions, that ask for theirs. */
extern const struct http_callbacks pipeline_callbacks, pipeline_callbacks_passed;

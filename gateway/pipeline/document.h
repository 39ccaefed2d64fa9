/*
 * gateway/pipeline/document.h -- the JSON in the body of a request.
 *
 * It is parsed and checked at the first call, and lives as long as the request. So target function and handler may call
 * request_document() any number of times.
 */
#pragma once

#include "gateway/pipeline/request.h"

/**
 * The gathered body as an object that fits the route's schema. ERROR_INVALID names the wrong member; ERROR_LIMIT,
 * ERROR_NO_MEMORY.
 */
RESULT request_document(struct request *request, const json_t **document_out, struct error *err);
/** The pipeline calls it at the end of the request. */
void request_document_free(struct request *request);

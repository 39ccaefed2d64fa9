/*
 * gateway/http/condition.h -- If-Match and If-None-Match of a request (RFC 9110, 13.1.1, 13.1.2) against an entity tag.
 *
 * An entity tag without its quotes, as people type it, is taken as if it had them. What is no list names nothing from there on.
 */
#pragma once

#include "gateway/http/message.h"

/** What does not hold: the first of them (RFC 9110, 13.2.2). */
enum condition { CONDITIONS_HOLD, CONDITION_NO_MATCH, CONDITION_A_MATCH };

/** `etag`: with its quotes, of what the request's target is now; NULL: there is nothing. Without the headers, all holds. */
enum condition condition_of_request(const struct fields *headers, const char *etag);

/** Whether a list ("*", or entity tags and commas) names `etag`. A weak tag is named by If-None-Match alone: `takes_weak`. */
bool entity_tags_name(const char *list, const char *etag, bool takes_weak);

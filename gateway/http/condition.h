/*
 * gateway/http/condition.h -- If-Match and If-None-Match of a request (RFC 9110, 13.1.1, 13.1.2) against an entity tag.
 *
 * People type entity tags without quotes, so a tag without quotes counts as the same tag with quotes. From the first malformed
 * member on, the list names nothing. */
#pragma once

#include "gateway/http/message.h"

#define ENTITY_TAG_SIZE 67 /* 64 hex digits in quotes */
/** The strong entity tag of a text: the digest of its bytes. */
void entity_tag_of(struct bytes text, char tag_out[ENTITY_TAG_SIZE]) __attribute__((nonnull));

/** The first condition that does not hold (RFC 9110, 13.2.2). */
enum condition { CONDITIONS_HOLD, CONDITION_NO_MATCH, CONDITION_A_MATCH };

/** `etag`: the current entity tag of the resource, with its quotes; NULL: nothing is there. Without both headers the conditions hold. */
enum condition condition_of_request(const struct fields *headers, const char *etag);

/** Whether a list ("*", or entity tags with commas) names `etag`. Only If-None-Match may name a weak tag: `takes_weak`. */
bool entity_tags_name(const char *list, const char *etag, bool takes_weak);

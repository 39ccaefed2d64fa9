/*
 * gateway/api/audit_exposure_priv.h -- what an exposure is about, and words of its events.
 */
#pragma once

#include "gateway/api/audit_priv.h"

/* What the events are found by; of a token and a certificate what is sealed beside them is compared, too. */
struct exposure {
    enum { OF_ACTOR, OF_RUN, OF_TOKEN, OF_CERTIFICATE } kind;
    const char *name;
    size_t named; /* of a token: so many of the actors that are searched for have this name */
    struct search_source source;
    struct search search;
};

/** Reads the parameters, and finds what they name. ERROR_INVALID, ERROR_NOT_FOUND. */
RESULT exposure_read(const struct request *request, struct exposure *exposure, struct error *err);
/** Whether a found event is of the credential. */
bool exposure_has(const struct exposure *exposure, const json_t *event);

/** The text behind "#" of a resource, which may be NULL. */
struct bytes exposure_detail_of(const char *resource);
/** The next word of it; false at the end. */
bool exposure_next_word(struct bytes *left, char *word, size_t size);
/** Whether it begins with the id of a request, as ids of tokens do. */
bool exposure_is_token(const char *text, char request_out[UUID_TEXT_SIZE]);
bool exposure_has_failed(const char *outcome);
/** A word of the member `what` of exposed_event. */
const char *exposure_kind_of(const json_t *entry);

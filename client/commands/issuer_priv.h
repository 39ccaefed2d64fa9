/* client/commands/issuer_priv.h -- shared by the commands about issuers. */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

#define ISSUER_ID_SIZE 64

struct invocation;
struct session;

/** The algorithms of the command line, or the `usual` ones (NULL-terminated). */
RESULT issuer_algorithms(const struct invocation *invocation, const char *const *usual, json_t **algorithms_out,
                         struct error *err);
/** Adds --audience and --lifetime-max. */
RESULT issuer_set_options(const struct invocation *invocation, json_t *body, struct error *err);
/** Appends "/issuers/<id>" of an issuer, which is named by its id or its URL. ERROR_NOT_FOUND. */
RESULT issuer_path(struct session *session, const char *named, struct buffer *path, struct error *err);

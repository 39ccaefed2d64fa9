/*
 * client/token_key_priv.h -- an open token, for the two sources of client/token_key.h.
 */
#pragma once

#include <p11-kit/p11-kit.h>
#include <p11-kit/uri.h>

#include "client/token_key.h"

struct token {
    P11KitUri *uri;
    CK_FUNCTION_LIST *named;   /* the module of module-path */
    CK_FUNCTION_LIST **others; /* the configured modules, without module-path */
    bool is_initialized;       /* the named one */
    CK_FUNCTION_LIST *module;  /* the one that has the token */
    CK_SLOT_ID slot;
    CK_TOKEN_INFO about;
    CK_SESSION_HANDLE session;
    bool has_session;
    struct secret *pin; /* NULL: the token has a keypad, or needs no login */
    CK_OBJECT_HANDLE key;
    bool asks_each_time; /* the PIN, for each signature */
};

/** Loads the modules and logs in to the one token that fits the URI. */
RESULT token_open(const struct token_key_options *options, struct token **token_out, struct error *err);
/** Gives the PIN again, for one signature. */
RESULT token_log_in(struct token *token, CK_USER_TYPE user, struct error *err);
RESULT token_refused(struct error *err, const char *what, CK_RV code);

void token_free(struct token *token);
DEFINE_OWNED(token);

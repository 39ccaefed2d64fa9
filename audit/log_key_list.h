/*
 * audit/log_key_list.h -- the keys of the log as sijil-keyd names them, while other threads use them.
 *
 * When a new key follows, a new list takes the place of the old one, which stays until the end: a log has few keys. One thread loads, any
 * thread views. Zeroed memory is an empty list.
 */
#pragma once

#include <stdatomic.h>

#include "audit/format/log_keys.h"
#include "crypto/keyd_client.h"

struct log_key_list {
    const struct log_keys *_Atomic newest;
    size_t count;
    struct log_keys *kept[LOG_KEYS_MAX];
};

/** Asks sijil-keyd for the keys, unless the newest one is that of `identity`. ERROR_DENIED: they don't continue those that are known here. */
RESULT log_key_list_load(struct log_key_list *list, struct keyd_client *keyd, const struct keyd_identity *identity,
                         struct error *err);
/** Never before the first load. */
const struct log_keys *log_key_view(const struct log_key_list *list);
void log_key_list_done(struct log_key_list *list);

/*
 * audit/format/leaf_quick_priv.h -- reads the leaves that nearly all events have, in a twentieth of the time.
 */
#pragma once

#include "audit/format/leaf.h"

/**
 * Reads a leaf whose texts are printable ASCII without '"' and '\'. It follows the one spelling from byte to byte, so what it accepts is
 * canonical, and leaf_read_any() would read the same. False: it decides nothing; leaf_read_any() does.
 */
bool leaf_read_quick(struct bytes text, struct leaf *leaf_out) __attribute__((nonnull));
/** Reads any leaf. */
RESULT leaf_read_any(struct bytes text, struct leaf *leaf_out, struct error *err) __attribute__((nonnull));

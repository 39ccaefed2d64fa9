/*
 * registry/upload/upload_sweep.h -- the bytes that an ended upload leaves.
 */
#pragma once

#include "registry/upload/upload_store.h"

/** Removes the bytes of an object that is in abandoned_object; what fails (false) is tried again by registry_tidy(). */
bool upload_sweep(struct registry *registry, struct pg *pg, const struct abandoned_object *object);

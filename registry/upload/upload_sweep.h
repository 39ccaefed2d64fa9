/* registry/upload/upload_sweep.h -- removes the bytes of ended uploads. */
#pragma once

#include "registry/upload/upload_store.h"

/** Removes the bytes of an object in abandoned_object. False if that fails; registry_clean_up() tries again. */
bool upload_sweep(struct registry *registry, struct pg *pg, const struct abandoned_object *object);

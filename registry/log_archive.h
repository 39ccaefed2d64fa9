/*
 * registry/log_archive.h -- the regions as stores of the log's old entries (audit/archive.h).
 */
#pragma once

#include "audit/archive.h"
#include "registry/registry.h"

/** Lives as long as the registry. */
const struct archive_store *registry_log_archive(struct registry *registry);

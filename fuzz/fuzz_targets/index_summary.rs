#![no_main]

drillcore_fuzz::program!("index_summary");

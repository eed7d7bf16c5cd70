#![no_main]

drillcore_fuzz::program!("set_summary");

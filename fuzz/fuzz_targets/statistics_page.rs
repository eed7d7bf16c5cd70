#![no_main]

drillcore_fuzz::program!("statistics_page");
